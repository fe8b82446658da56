package crd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// server is a fake API server for PodGroups.
type server struct {
	discovery.ServerResourcesInterfaceWithContext
	client *dynamicfake.FakeDynamicClient

	mutex sync.Mutex
	// installed is true if it has the resource.
	installed bool
	// refuses is the error for all requests for PodGroups, denies the error for discovery.
	refuses, denies error
	// looks counts the discovery requests.
	looks   int
	watches []watch.Interface
}

func newServer(objects ...runtime.Object) *server {
	s := &server{installed: true}
	s.client = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{resource: "PodGroupList"}, objects...)
	s.client.PrependReactor("list", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
		err := s.refusal()
		return err != nil, nil, err
	})
	s.client.PrependWatchReactor("podgroups", func(action clienttesting.Action) (bool, watch.Interface, error) {
		if err := s.refusal(); err != nil {
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

func (s *server) refusal() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.installed {
		return apierrors.NewNotFound(resource.GroupResource(), "")
	}
	return s.refuses
}

// ServerResourcesForGroupVersionWithContext implements discovery.ServerResourcesInterfaceWithContext.
func (s *server) ServerResourcesForGroupVersionWithContext(_ context.Context, version string) (*metav1.APIResourceList, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.looks++
	switch {
	case s.denies != nil:
		return nil, s.denies
	case version != "scheduling.x-k8s.io/v1alpha1":
		return nil, apierrors.NewNotFound(schema.GroupResource{}, version)
	case !s.installed:
		// Another resource of the API group may exist.
		return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "elasticquotas"}}}, nil
	}
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "podgroups/status"}, {Name: "podgroups"}}}, nil
}

func (s *server) asked() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.looks
}

// change changes the server's state, and ends all watches.
func (s *server) change(change func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	change()
	for _, w := range s.watches {
		w.Stop()
	}
	s.watches = nil
}

func object(name string, minMember any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
		"metadata": map[string]any{"namespace": "ml", "name": name, "uid": name, "resourceVersion": fmt.Sprint(minMember)},
		"spec":     map[string]any{"minMember": minMember},
	}}
}

// run makes Groups follow a server until the test ends. The returned function returns the changes since the last call,
// after checking Get for each, as "name before→after" with minMember or – for none.
func run(t *testing.T, s *server) (*Groups, func() []string) {
	t.Helper()
	g := newGroups(informer.Optional{Resource: resource, Client: s.client, Discovery: s})
	var mutex sync.Mutex
	var changes, wrong []string
	g.OnChange(func(before, after *v1alpha1.PodGroup) {
		mutex.Lock()
		defer mutex.Unlock()
		name, change := describe(before, after)
		changes = append(changes, change)
		if shown, err := g.Get("ml", name); err == nil && shown != after || err != nil && after != nil {
			wrong = append(wrong, fmt.Sprintf("%s: Get shows %v, %v", name, shown, err))
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return g, func() []string {
		synctest.Wait()
		mutex.Lock()
		defer mutex.Unlock()
		require.Empty(t, wrong)
		result := changes
		changes = nil
		return result
	}
}

// describe returns the name of a PodGroup and its change.
func describe(before, after *v1alpha1.PodGroup) (name, change string) {
	was, is := "–", "–"
	if before != nil {
		name, was = before.Name, fmt.Sprint(before.Spec.MinMember)
	}
	if after != nil {
		name, is = after.Name, fmt.Sprint(after.Spec.MinMember)
	}
	return name, name + " " + was + "→" + is
}

func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(object("a", int64(1)))
		g, changes := run(t, s)
		require.Equal(t, []string{"a –→1"}, changes())
		require.True(t, g.HasSynced())
		require.True(t, g.Installed())
		client := s.client.Resource(resource).Namespace("ml")
		_, err := client.Create(t.Context(), object("b", int64(2)), metav1.CreateOptions{})
		require.NoError(t, err)
		require.Equal(t, []string{"b –→2"}, changes())
		_, err = client.Update(t.Context(), object("b", int64(3)), metav1.UpdateOptions{})
		require.NoError(t, err)
		require.Equal(t, []string{"b 2→3"}, changes())
		require.NoError(t, client.Delete(t.Context(), "a", metav1.DeleteOptions{}))
		require.Equal(t, []string{"a 1→–"}, changes())
		_, err = g.Get("ml", "a")
		require.ErrorContains(t, err, "there is none of that name")

		// An unreadable PodGroup is reported, and hides no other.
		_, err = client.Update(t.Context(), object("b", "many"), metav1.UpdateOptions{})
		require.NoError(t, err)
		_, err = client.Create(t.Context(), object("c", int64(1)), metav1.CreateOptions{})
		require.NoError(t, err)
		require.Equal(t, []string{"b 3→–", "c –→1"}, changes())
		_, err = g.Get("ml", "b")
		require.ErrorContains(t, err, "a field does not have its type in scheduling.x-k8s.io/v1alpha1")
		require.ErrorContains(t, err, "correct that field")
		_, err = client.Update(t.Context(), object("b", int64(4)), metav1.UpdateOptions{})
		require.NoError(t, err)
		require.Equal(t, []string{"b –→4"}, changes())

		// A new watch, with the same objects: nothing has changed.
		s.change(func() {})
		time.Sleep(time.Hour)
		require.Empty(t, changes())
		require.Equal(t, 1, s.asked())
	})
}

func TestBrokenFromTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		quantity := object("b", int64(1))
		quantity.Object["spec"] = map[string]any{"minResources": map[string]any{"cpu": "a lot"}}
		_, changes := run(t, newServer(object("a", int64(1)), quantity, object("c", "many")))
		require.Equal(t, []string{"a –→1"}, changes())
	})
}

func TestInstalledLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(object("a", int64(1)))
		s.installed = false
		g, changes := run(t, s)
		require.Empty(t, changes())
		require.Equal(t, 1, s.asked())
		require.True(t, g.HasSynced(), "there is nothing to wait for")
		require.False(t, g.Installed())
		time.Sleep(time.Minute + time.Second) // Often at first.
		require.Equal(t, 6, s.asked())
		time.Sleep(10 * time.Minute) // Rarely while no pod needs it.
		require.Equal(t, 16, s.asked())

		_, err := g.Get("ml", "a")
		require.ErrorIs(t, err, ErrNotInstalled)
		require.ErrorContains(t, err, "the API server has no such resource; install its CustomResourceDefinition (kubectl apply -k manifests/pod-groups)")
		time.Sleep(time.Minute + time.Second) // Often again, as there is a pod that needs it.
		require.Equal(t, 22, s.asked())

		_, err = g.Get("ml", "a")
		require.ErrorContains(t, err, "the API server has no such resource")
		s.change(func() { s.installed = true })
		time.Sleep(10 * time.Second)
		require.Equal(t, []string{"a –→1"}, changes())
		_, err = g.Get("ml", "a")
		require.NoError(t, err)
		require.True(t, g.HasSynced())
		require.True(t, g.Installed())
	})
}

func TestTakenOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(object("a", int64(1)))
		g, changes := run(t, s)
		require.Equal(t, []string{"a –→1"}, changes())

		s.change(func() { s.installed = false })
		time.Sleep(10 * time.Second)
		require.Equal(t, []string{"a 1→–"}, changes())
		_, err := g.Get("ml", "a")
		require.ErrorIs(t, err, ErrNotInstalled)
		require.False(t, g.Installed())

		s.change(func() { s.installed = true })
		time.Sleep(time.Minute)
		require.Equal(t, []string{"a –→1"}, changes())
	})
}

func TestCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		refuses, denies error
		want            string
	}{
		"forbidden": {
			refuses: apierrors.NewForbidden(resource.GroupResource(), "", errors.New("no role")),
			want:    "the scheduler may not list or watch PodGroups; give it the ClusterRole quartermaster-pod-groups (kubectl apply -k manifests/pod-groups)",
		},
		"the server is not well":                     {refuses: apierrors.NewInternalError(errors.New("no storage")), want: "see whether the API server is well"},
		"not found for a moment, as a server starts": {refuses: apierrors.NewNotFound(resource.GroupResource(), ""), want: "see whether the API server is well"},
		"no answer to what it has":                   {denies: errors.New("connection refused"), want: "ask the API server what it has of scheduling.x-k8s.io/v1alpha1: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newServer(object("a", int64(1)))
				s.refuses, s.denies = tc.refuses, tc.denies
				g, changes := run(t, s)
				time.Sleep(5 * time.Minute)
				require.Empty(t, changes())
				_, err := g.Get("ml", "a")
				require.ErrorContains(t, err, tc.want)
				require.NotErrorIs(t, err, ErrNotInstalled)
				require.False(t, g.HasSynced())

				s.change(func() { s.refuses, s.denies = nil, nil })
				time.Sleep(time.Minute)
				require.Equal(t, []string{"a –→1"}, changes())
				_, err = g.Get("ml", "b")
				require.ErrorContains(t, err, "there is none of that name")

				// Known PodGroups stay; others may exist.
				s.change(func() { s.refuses = apierrors.NewForbidden(resource.GroupResource(), "", errors.New("no role")) })
				time.Sleep(time.Minute)
				require.Empty(t, changes())
				_, err = g.Get("ml", "a")
				require.NoError(t, err)
				_, err = g.Get("ml", "b")
				require.ErrorContains(t, err, "PodGroup ml/b (scheduling.x-k8s.io/v1alpha1) which the label scheduling.x-k8s.io/pod-group names: it is not known because the scheduler may not list or watch PodGroups; give it the ClusterRole quartermaster-pod-groups (kubectl apply -k manifests/pod-groups): podgroups.scheduling.x-k8s.io is forbidden: no role")
			})
		})
	}
}
