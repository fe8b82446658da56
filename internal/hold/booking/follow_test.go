package booking

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	schedulingapi "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// server is a fake API server for DeviceBookings.
type server struct {
	discovery.ServerResourcesInterfaceWithContext
	client *dynamicfake.FakeDynamicClient

	mutex     sync.Mutex
	installed bool
	// forbidden is set while nobody may read or write.
	forbidden bool
	looks     int
	watches   []watch.Interface
	// conflicts is the number of writes of a status to refuse; writes counts those that succeeded.
	conflicts, writes int
}

func newServer(t *testing.T, objects ...DeviceBooking) *server {
	s := &server{installed: true}
	var stored []runtime.Object
	for _, o := range objects {
		stored = append(stored, untyped(t, o))
	}
	s.client = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{resource: Kind + "List"}, stored...)
	s.client.PrependReactor("list", resource.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		err := s.missing()
		return err != nil, nil, err
	})
	s.client.PrependReactor("update", resource.Resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if s.conflicts > 0 {
			s.conflicts--
			return true, nil, apierrors.NewConflict(resource.GroupResource(), "b", errors.New("changed"))
		}
		s.writes++
		// As the server does, it takes the status alone.
		update := action.(clienttesting.UpdateAction).GetObject().(*unstructured.Unstructured)
		now, err := s.client.Tracker().Get(resource, update.GetNamespace(), update.GetName())
		if err != nil {
			return true, nil, err
		}
		stored := now.(*unstructured.Unstructured).DeepCopy()
		stored.Object["status"] = update.Object["status"]
		return true, stored, s.client.Tracker().Update(resource, stored, stored.GetNamespace())
	})
	s.client.PrependWatchReactor(resource.Resource, func(action clienttesting.Action) (bool, watch.Interface, error) {
		if err := s.missing(); err != nil {
			return true, nil, err
		}
		w, err := s.client.Tracker().Watch(resource, action.GetNamespace())
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.watches = append(s.watches, w)
		return true, w, err
	})
	return s
}

func (s *server) missing() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.installed {
		return apierrors.NewNotFound(resource.GroupResource(), "")
	}
	if s.forbidden {
		return apierrors.NewForbidden(resource.GroupResource(), "", errors.New("no role"))
	}
	return nil
}

// ServerResourcesForGroupVersionWithContext implements discovery.ServerResourcesInterfaceWithContext.
func (s *server) ServerResourcesForGroupVersionWithContext(context.Context, string) (*metav1.APIResourceList, error) {
	s.mutex.Lock()
	s.looks++
	s.mutex.Unlock()
	if err := s.missing(); err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "devicebookings"}, {Name: "devicebookings/status"}}}, nil
}

// install makes the server have the resource, or not any more.
func (s *server) install(installed bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.installed = installed
	for _, w := range s.watches {
		w.Stop()
	}
	s.watches = nil
}

func untyped(t *testing.T, o DeviceBooking) *unstructured.Unstructured {
	t.Helper()
	o.APIVersion, o.Kind = Version.String(), Kind
	text, err := json.Marshal(o)
	require.NoError(t, err)
	result := &unstructured.Unstructured{}
	require.NoError(t, result.UnmarshalJSON(text))
	return result
}

// run follows a server until the test ends.
func run(t *testing.T, s *server, classes ...runtime.Object) *Bookings {
	t.Helper()
	b := newBookings(informer.Optional{Resource: resource, Client: s.client, Discovery: s}, fake.NewClientset(classes...))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	b.Await(ctx)
	synctest.Wait()
	return b
}

// TestComesAndGoes: the definition of bookings may be installed while the scheduler runs, and be gone again, with all bookings. Until then, the
// server is asked once a minute.
func TestComesAndGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, object())
		s.install(false)
		began := time.Now()
		b := run(t, s)
		require.Equal(t, began, time.Now(), "nobody waits for what is not there")
		require.Empty(t, b.All())
		time.Sleep(time.Hour)
		s.mutex.Lock()
		require.InDelta(t, 65, s.looks, 2)
		s.mutex.Unlock()
		s.install(true)
		time.Sleep(lookLater + time.Second)
		require.Len(t, b.All(), 1)
		s.install(false)
		time.Sleep(time.Minute)
		require.Empty(t, b.All())
		_, err := b.Priority(Parse(object()))
		require.ErrorContains(t, err, "is gone")
		s.install(true)
		time.Sleep(lookLater + time.Second)
		require.Len(t, b.All(), 1)
	})
}

// TestRightsComeAndGo: bookings that may not be read any more hold nothing after a minute, because nobody would notice that they are deleted. A
// server that refuses for a moment changes nothing.
func TestRightsComeAndGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, object())
		b := run(t, s)
		forbid := func(forbidden bool) {
			s.mutex.Lock()
			s.forbidden = forbidden
			s.mutex.Unlock()
			s.install(true)
		}
		require.Len(t, b.All(), 1)
		for range 2 {
			forbid(true)
			time.Sleep(longRefused / 2)
			require.Len(t, b.All(), 1)
			forbid(false)
			time.Sleep(longRefused)
			require.Len(t, b.All(), 1)
		}
		forbid(true)
		time.Sleep(2 * longRefused)
		require.Empty(t, b.All())
		forbid(false)
		time.Sleep(2 * longRefused)
		require.Len(t, b.All(), 1)
	})
}

// TestBadOne: an object that the type cannot hold hides no other.
func TestBadOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, object())
		bad := untyped(t, object(func(o *DeviceBooking) { o.Name = "bad" }))
		bad.Object["spec"] = map[string]any{"count": "many"}
		require.NoError(t, s.client.Tracker().Add(bad))
		all := run(t, s).All()
		require.Len(t, all, 2)
		require.NoError(t, all[0].Invalid)
		require.ErrorContains(t, all[1].Invalid, "correct that field")
	})
}

// TestPriority: a booking has the priority of its class, or that of pods without one.
func TestPriority(t *testing.T) {
	t.Parallel()
	class := func(name string, value int32, byDefault bool) runtime.Object {
		return &schedulingapi.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: byDefault}
	}
	synctest.Test(t, func(t *testing.T) {
		b := run(t, newServer(t), class("high", 10, false), class("usual", 5, true))
		of := func(name string) (int32, error) {
			return b.Priority(Parse(object(func(o *DeviceBooking) { o.Spec.PriorityClassName = name })))
		}
		priority, err := of("high")
		require.NoError(t, err)
		require.EqualValues(t, 10, priority)
		priority, err = of("")
		require.NoError(t, err)
		require.EqualValues(t, 5, priority)
		_, err = of("none")
		require.ErrorContains(t, err, `priorityClassName is "none" and there is no such PriorityClass`)
	})
}
