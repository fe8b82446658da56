package allocationlog

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Limits for what has to happen at some time.
const (
	timeout = 3 * time.Minute
	tick    = 5 * time.Millisecond
)

// source answers lists and watches of claims.
type source struct {
	// lists are the answers to lists, in order; the last one is repeated.
	lists []*resourceapi.ResourceClaimList
	// watches are the answers to watches, in order.
	watches chan *watch.FakeWatcher
	// versions are those from which a watch was asked for.
	versions chan string
}

func listOf(version uint64, claims ...*resourceapi.ResourceClaim) *resourceapi.ResourceClaimList {
	list := &resourceapi.ResourceClaimList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatUint(version, 10)}}
	for _, claim := range claims {
		list.Items = append(list.Items, *claim.DeepCopy())
	}
	return list
}

// inBackground runs until the end of the test.
func inBackground(t *testing.T, run func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// run starts an Log with a fake client. It stops with the test.
func run(t *testing.T, lists ...*resourceapi.ResourceClaimList) (*Log, *source) {
	s := &source{lists: lists, watches: make(chan *watch.FakeWatcher, 10), versions: make(chan string, 10)}
	client := fake.NewClientset()
	client.PrependReactor("list", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		list := s.lists[0]
		if len(s.lists) > 1 {
			s.lists = s.lists[1:]
		}
		return true, list.DeepCopy(), nil
	})
	client.PrependWatchReactor("resourceclaims", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w := watch.NewFakeWithChanSize(100, false)
		s.versions <- action.(clienttesting.WatchActionImpl).ListOptions.ResourceVersion
		s.watches <- w
		return true, w, nil
	})
	o := New(client, noPools, clock.RealClock{})
	inBackground(t, o.Run)
	return o, s
}

func await(t *testing.T, o *Log, version string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	require.NoError(t, o.Await(ctx, version))
}

func TestRun(t *testing.T) {
	t.Parallel()
	o, s := run(t, listOf(100, at(50, ours("x", "gpu-0"))))
	await(t, o, "100")
	w := <-s.watches
	require.Equal(t, "100", <-s.versions)

	result := waiting(t, &o.progress, context.Background(), 120)
	w.Add(at(110, free("y")))
	w.Modify(at(120, ours("y", "gpu-0")))
	require.NoError(t, <-result)
	require.Equal(t, "earlier x: held gpu-0", verdict(o.lost("uid-y")))

	w.Delete(at(130, ours("x", "gpu-0")))
	await(t, o, "130")
	require.Nil(t, o.lost("uid-y"))

	w.Action(watch.Bookmark, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "200"}})
	await(t, o, "200")
	require.NotNil(t, o.index.claims["uid-y"])
}

// A watch that breaks goes on where it was; one that is too old begins with a list.
func TestRunAfterFailures(t *testing.T) {
	t.Parallel()
	o, s := run(t, listOf(100), listOf(300, at(250, ours("x", "gpu-0")), at(260, ours("y", "gpu-0")), at(110, ours("z", "gpu-0"))))
	w := <-s.watches
	<-s.versions
	w.Modify(at(110, ours("z", "gpu-0")))
	await(t, o, "110")
	w.Stop()

	w = <-s.watches
	require.Equal(t, "110", <-s.versions)
	expired := metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired}
	w.Error(&expired)
	await(t, o, "300")
	require.Equal(t, "earlier z: held gpu-0", verdict(o.lost("uid-x")))
	require.Nil(t, o.lost("uid-z"))
	require.Equal(t, Unknown, o.Conflicts("uid-x")[1].Relation)
}

// Where the server supports it, the list comes as events as well, in any order. They only
// count when the list is complete.
func TestRunWithStreamedList(t *testing.T) {
	t.Parallel()
	stream := watch.NewFakeWithChanSize(100, false)
	requested := make(chan metav1.ListOptions, 1)
	o := New(nil, noPools, clock.RealClock{})
	inBackground(t, o.newReflector(&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return nil, errors.New("the list was to be streamed")
		},
		WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
			requested <- options
			return stream, nil
		},
	}).RunWithContext)
	require.True(t, *(<-requested).SendInitialEvents)

	stream.Add(at(60, ours("y", "gpu-0")))
	stream.Add(at(50, ours("x", "gpu-0")))
	result := waiting(t, &o.progress, context.Background(), 60)
	require.Zero(t, o.progress.upTo(), "the list has not ended")
	stream.Action(watch.Bookmark, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: "100", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
	require.NoError(t, <-result)
	require.Equal(t, "unknown y: held gpu-0", verdict(o.lost("uid-x")))

	stream.Modify(at(110, ours("z", "gpu-0")))
	await(t, o, "110")
	require.Equal(t, Earlier, o.lost("uid-z").Relation)
}

func noPools(inventory.PoolID) *inventory.NodePool { return nil }
