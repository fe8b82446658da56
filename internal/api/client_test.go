package api

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const patience = 3 * time.Minute

// A server that has everything in v1 is used as if this package did not exist.
func TestConnectLeavesV1Alone(t *testing.T) {
	t.Parallel()
	for name, versions := range map[string]map[Version][]string{
		"v1 only":      {V1: allResources},
		"all versions": {V1: allResources, V1beta2: allResources, V1beta1: without(ruleResource)},
		"v1beta2":      {V1beta2: allResources},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := configOf(startServer(t, versions).http, "", "")
			client, err := kubernetes.NewForConfig(config)
			require.NoError(t, err)
			connected := Connect(t.Context(), client)
			require.Equal(t, versions[V1] != nil, connected == kubernetes.Interface(client))
			require.Equal(t, versions[V1] == nil, Of(connected) != nil)
		})
	}
}

// A server that does not have the version any more says so in one of two forms. That must
// not be taken for news about a claim: those who undo an allocation would think that it
// went with its claim.
func TestNotServed(t *testing.T) {
	t.Parallel()
	for _, version := range []Version{V1beta1, V1beta2} {
		s := startServer(t, map[Version][]string{V1: allResources})
		s.add(claimResource, "gpus")
		client, _ := s.connect()
		require.NoError(t, Of(client).ask(t.Context(), 0))
		Of(client).versions[claimResource] = version // As if it had been there.
		claim, err := client.ResourceV1().ResourceClaims("default").Get(t.Context(), "gpus", metav1.GetOptions{})
		require.Error(t, err, "the server has just been asked")
		require.Nil(t, claim)
		require.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
		require.ErrorContains(t, err, version.groupVersion())
	}
	require.False(t, isNotServed(newNotServed(claimResource)))
	require.True(t, apierrors.IsNotFound(newNotServed(claimResource)))
}

// Each kind of request, in each version.
func TestRequests(t *testing.T) {
	t.Parallel()
	for _, version := range []Version{V1, V1beta2, V1beta1, V1alpha3} {
		t.Run(string(version), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s := startServer(t, map[Version][]string{version: without(ruleResource)})
			s.add(claimResource, "gpus")
			client, _ := s.connect()
			require.NoError(t, Of(client).ask(ctx, 0))
			claims := client.ResourceV1().ResourceClaims("default")

			claim, err := claims.Get(ctx, "gpus", metav1.GetOptions{})
			require.NoError(t, err)
			claim.Status.Allocation = &resourceapi.AllocationResult{}
			claim.Status.Allocation.Devices.Results = []resourceapi.DeviceRequestAllocationResult{{Request: "r", Driver: "d", Pool: "p", Device: "gpu-7"}}
			updated, err := claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{FieldManager: "me"})
			require.NoError(t, err)
			require.Equal(t, "gpu-7", updated.Status.Allocation.Devices.Results[0].Device)
			updated.Finalizers = []string{"example.com/mine"}
			updated, err = claims.Update(ctx, updated, metav1.UpdateOptions{})
			require.NoError(t, err)
			require.Equal(t, "103", updated.ResourceVersion)
			list, err := claims.List(ctx, metav1.ListOptions{})
			require.NoError(t, err)
			require.Equal(t, "103", list.ResourceVersion)
			require.Equal(t, []string{"example.com/mine"}, list.Items[0].Finalizers)
			require.Equal(t, "gpu-7", list.Items[0].Status.Allocation.Devices.Results[0].Device)
			v := string(version)
			require.Equal(t, []string{
				"GET " + v + "/resourceclaims/gpus", "PUT " + v + "/resourceclaims/gpus/status",
				"PUT " + v + "/resourceclaims/gpus", "GET " + v + "/resourceclaims",
			}, s.took())

			// An object that is not there is no reason to look for another version.
			_, err = claims.Get(ctx, "none", metav1.GetOptions{})
			require.True(t, apierrors.IsNotFound(err))
			require.False(t, isNotServed(err))
			require.Equal(t, []string{"GET " + v + "/resourceclaims/none"}, s.took())
			if version != V1 {
				for _, patch := range []string{"{}", `{"metadata":{"annotations":{"a":"b"}}}`, `{"metadata":{"resourceVersion":"103","annotations":{"a":"b"}},"spec":{}}`} {
					_, err = claims.Patch(ctx, "gpus", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
					require.ErrorContains(t, err, v)
				}
				_, err = claims.Apply(ctx, nil, metav1.ApplyOptions{})
				require.ErrorContains(t, err, "apply resourceclaims")
				require.Empty(t, s.took())
				// Labels and annotations are the same in all versions.
				patched, err := claims.Patch(ctx, "gpus", types.MergePatchType, []byte(`{"metadata":{"resourceVersion":"103","annotations":{"a":"b"}}}`), metav1.PatchOptions{})
				require.NoError(t, err)
				require.Equal(t, "b", patched.Annotations["a"])
				require.Equal(t, []string{"GET " + v + "/resourceclaims/gpus", "PUT " + v + "/resourceclaims/gpus"}, s.took())
			}
		})
	}
}

// follow runs an informer of claims, as the scheduler's own.
func follow(t *testing.T, client kubernetes.Interface) cache.SharedIndexInformer {
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Resource().V1().ResourceClaims().Informer()
	ctx, cancel := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	t.Cleanup(factory.Shutdown)
	t.Cleanup(cancel)
	synced, stop := context.WithTimeout(ctx, patience)
	defer stop()
	require.True(t, cache.WaitForCacheSync(synced.Done(), informer.HasSynced), "the informer has to start")
	return informer
}

func requireKnown(t *testing.T, informer cache.SharedIndexInformer, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, found, err := informer.GetStore().GetByKey("default/" + name)
		return err == nil && found
	}, patience, 10*time.Millisecond, "the informer has to see claim %s", name)
}

// An informer goes on while the server changes its version underneath.
func TestUpgradeUnderneath(t *testing.T) {
	t.Parallel()
	s := startServer(t, map[Version][]string{V1beta1: without(ruleResource)})
	client, clock := s.connect()
	require.NoError(t, Of(client).ask(t.Context(), 0))
	s.add(claimResource, "old")
	informer := follow(t, client)
	requireKnown(t, informer, "old")

	clock.Step(lookAgainAfter)
	s.upgrade(map[Version][]string{V1: without(ruleResource), V1beta1: without(ruleResource)})
	require.Eventually(t, func() bool { return Of(client).Version(claimResource) == V1 }, patience, 10*time.Millisecond,
		"opening the next watch has to find the newer version")
	s.waitForWatch(V1)
	s.add(claimResource, "between")
	requireKnown(t, informer, "between")

	s.upgrade(map[Version][]string{V1: allResources})
	s.waitForWatch(V1)
	s.add(claimResource, "new")
	requireKnown(t, informer, "new")
	require.IsType(t, &resourceapi.ResourceClaim{}, informer.GetStore().List()[0])
}

// A server can be replaced by an older one, too.
func TestDowngradeUnderneath(t *testing.T) {
	t.Parallel()
	s := startServer(t, map[Version][]string{V1: without(ruleResource)})
	client, clock := s.connect()
	require.NoError(t, Of(client).ask(t.Context(), 0))
	s.add(claimResource, "old")
	informer := follow(t, client)
	requireKnown(t, informer, "old")
	s.waitForWatch(V1)

	clock.Step(askAgainAfter)
	s.upgrade(map[Version][]string{V1beta1: without(ruleResource)})
	s.waitForWatch(V1beta1)
	s.add(claimResource, "new")
	requireKnown(t, informer, "new")
	requireKnown(t, informer, "old")
	require.False(t, Of(client).StoresExtendedResources())
	s.took()
	claims := client.ResourceV1().ResourceClaims("default")
	claim, err := claims.Get(t.Context(), "new", metav1.GetOptions{})
	require.NoError(t, err)
	_, err = claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Contains(t, s.took(), "PUT v1beta1/resourceclaims/new/status")
}

// waitForWatch waits until claims are watched in a version. The server does not remember
// events for those who come later.
func (s *server) waitForWatch(version Version) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		n := len(s.requests)
		return len(s.watchers) > 0 && n > 0 && s.requests[n-1] == "WATCH "+string(version)+"/"+claimResource
	}, patience, 10*time.Millisecond)
}

// Informers start without any claim API, and have it as soon as it is there.
func TestAbsentAndThenThere(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	client, clock := s.connect()
	served := Of(client)
	require.NoError(t, served.ask(t.Context(), 0))
	go served.run(t.Context())
	informer := follow(t, client)
	require.Empty(t, informer.GetStore().List())
	_, err := client.ResourceV1().ResourceClaims("default").Get(t.Context(), "gpus", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err))
	require.ErrorContains(t, err, "runtime-config", "the error says what to do")
	require.Empty(t, s.took(), "nothing but discovery")

	s.upgrade(map[Version][]string{V1beta2: without(ruleResource)})
	s.add(claimResource, "gpus")
	require.Eventually(t, func() bool { clock.Step(lookAgainAfter); return served.Version(claimResource) == V1beta2 }, patience, 10*time.Millisecond)
	requireKnown(t, informer, "gpus")
}
