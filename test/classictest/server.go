// Package classictest has a fake API server for tests of the classic mode.
package classictest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/quartermaster-dra/quartermaster/internal/api"
)

// Server is a fake server and client for the PodSchedulingContexts of one namespace, with resourceVersions, conflicts
// and watches.
type Server struct {
	mutex    sync.Mutex
	revision int
	objects  map[string]*api.PodSchedulingContext
	watchers []*watch.RaceFreeFakeWatcher
	silent   bool
	down     bool
	requests []string
}

var contextsResource = schema.GroupResource{Group: "resource.k8s.io", Resource: "podschedulingcontexts"}

// NewServer returns a server without objects.
func NewServer() *Server {
	return &Server{revision: 100, objects: make(map[string]*api.PodSchedulingContext)}
}

// Contexts returns the client.
func (s *Server) Contexts(string) api.SchedulingContexts { return s }

// store stores an object and sends the event. The caller holds the mutex.
func (s *Server) store(object *api.PodSchedulingContext, event watch.EventType) *api.PodSchedulingContext {
	s.revision++
	object = object.DeepCopy()
	object.ResourceVersion = strconv.Itoa(s.revision)
	s.objects[object.Name] = object
	if event == watch.Deleted {
		delete(s.objects, object.Name)
	}
	for _, w := range s.watchers {
		if !s.silent {
			w.Action(event, object.DeepCopy())
		}
	}
	return object.DeepCopy()
}

func (s *Server) begin(request string) error {
	s.requests = append(s.requests, request)
	if s.down {
		return errors.New("the server is down")
	}
	return nil
}

// Get implements apiversions.SchedulingContexts.
func (s *Server) Get(_ context.Context, name string, _ metav1.GetOptions) (*api.PodSchedulingContext, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err := s.begin("get " + name); err != nil {
		return nil, err
	}
	if object := s.objects[name]; object != nil {
		return object.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(contextsResource, name)
}

// List implements apiversions.SchedulingContexts.
func (s *Server) List(context.Context, metav1.ListOptions) (*api.PodSchedulingContextList, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	list := &api.PodSchedulingContextList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.revision)}}
	for _, object := range s.objects {
		list.Items = append(list.Items, *object.DeepCopy())
	}
	return list, nil
}

// Watch implements apiversions.SchedulingContexts.
func (s *Server) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		return nil, apierrors.NewBadRequest("lists cannot be watched here")
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	w := watch.NewRaceFreeFake()
	s.watchers = append(s.watchers, w)
	return w, nil
}

// Create implements apiversions.SchedulingContexts.
func (s *Server) Create(_ context.Context, object *api.PodSchedulingContext, _ metav1.CreateOptions) (*api.PodSchedulingContext, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err := s.begin("create " + object.Name); err != nil {
		return nil, err
	}
	if s.objects[object.Name] != nil {
		return nil, apierrors.NewAlreadyExists(contextsResource, object.Name)
	}
	object = object.DeepCopy()
	object.UID = types.UID(fmt.Sprintf("context-%d", s.revision))
	return s.store(object, watch.Added), nil
}

// Update implements apiversions.SchedulingContexts.
func (s *Server) Update(_ context.Context, object *api.PodSchedulingContext, _ metav1.UpdateOptions) (*api.PodSchedulingContext, error) {
	return s.update("update", object, func(current *api.PodSchedulingContext) { current.Spec = object.Spec })
}

// UpdateStatus implements apiversions.SchedulingContexts.
func (s *Server) UpdateStatus(_ context.Context, object *api.PodSchedulingContext, _ metav1.UpdateOptions) (*api.PodSchedulingContext, error) {
	return s.update("update the status of", object, func(current *api.PodSchedulingContext) { current.Status = object.Status })
}

func (s *Server) update(verb string, object *api.PodSchedulingContext, change func(*api.PodSchedulingContext)) (*api.PodSchedulingContext, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err := s.begin(verb + " " + object.Name); err != nil {
		return nil, err
	}
	current := s.objects[object.Name]
	switch {
	case current == nil:
		return nil, apierrors.NewNotFound(contextsResource, object.Name)
	case current.ResourceVersion != object.ResourceVersion:
		return nil, apierrors.NewConflict(contextsResource, object.Name, errors.New("changed"))
	}
	current = current.DeepCopy()
	change(current)
	return s.store(current, watch.Modified), nil
}

// Delete implements apiversions.SchedulingContexts.
func (s *Server) Delete(_ context.Context, name string, o metav1.DeleteOptions) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err := s.begin("delete " + name); err != nil {
		return err
	}
	current := s.objects[name]
	switch {
	case current == nil:
		return apierrors.NewNotFound(contextsResource, name)
	case o.Preconditions != nil && o.Preconditions.UID != nil && *o.Preconditions.UID != current.UID:
		return apierrors.NewConflict(contextsResource, name, errors.New("another one"))
	}
	s.store(current, watch.Deleted)
	return nil
}

// Answer sets a driver's answer about the claims of a pod.
func (s *Server) Answer(pod string, statuses ...api.ClaimSchedulingStatus) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	current := s.objects[pod].DeepCopy()
	current.Status.ResourceClaims = statuses
	s.store(current, watch.Modified)
}

// SetSilent stops the events of watches.
func (s *Server) SetSilent(silent bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.silent = silent
}

// SetDown makes all requests except lists and watches fail.
func (s *Server) SetDown(down bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.down = down
}

// Stored returns the server's context of a pod, nil if there is none.
func (s *Server) Stored(pod string) *api.PodSchedulingContext {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if object := s.objects[pod]; object != nil {
		return object.DeepCopy()
	}
	return nil
}

// Took returns the requests since the last call, without lists and watches.
func (s *Server) Took() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	requests := s.requests
	s.requests = nil
	return requests
}
