package negotiation

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/classictest"
)

type spec = api.PodSchedulingContextSpec

// fixture is a negotiator in a bubble of testing/synctest: settle knows when there is
// nothing left to do.
type fixture struct {
	*Negotiator
	t      *testing.T
	ctx    context.Context
	server *classictest.Server
	claims *writerFixture
	// gone are the pods that do not wait any more.
	gone map[string]bool
	// told are the contexts that were reported, by name and status.
	told []string
}

func negotiate(t *testing.T, s *classictest.Server, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{t: t, server: s, gone: make(map[string]bool)}
		f.claims = newWriterFixture(claim("c", with(ofController), allocatedIn("a")))
		f.start()
		test(f)
	})
}

func (f *fixture) Exists(pod *v1.Pod) bool { return !f.gone[pod.Name] }

func (f *fixture) start() {
	negotiator, err := NewNegotiator(f.server, f.claims.Writer, f,
		func(before, after *api.PodSchedulingContext) {
			if after == nil {
				f.told = append(f.told, before.Name+" ended")
				return
			}
			what := after.Name
			for _, status := range after.Status.ResourceClaims {
				what += " " + status.Name
			}
			f.told = append(f.told, what)
		})
	require.NoError(f.t, err)
	f.Negotiator = negotiator
	var cancel context.CancelFunc
	f.ctx, cancel = context.WithCancel(context.Background())
	f.t.Cleanup(func() {
		cancel()
		f.settle()
	})
	require.ErrorContains(f.t, negotiator.CheckSync(), "manifests/alpha-api")
	go negotiator.Run(f.ctx)
	f.settle()
	require.NoError(f.t, negotiator.CheckSync())
}

func (f *fixture) settle() { synctest.Wait() }

// has is the spec of a pod's context on the server.
func (f *fixture) has(pod string) *spec {
	if object := f.server.Stored(pod); object != nil {
		return &object.Spec
	}
	return nil
}

func TestNegotiation(t *testing.T) {
	t.Parallel()
	negotiate(t, classictest.NewServer(), func(f *fixture) {
		p := builder.Pod("p")
		require.Nil(t, f.Context(p))
		f.Ask(p, spec{PotentialNodes: []string{"a", "b"}})
		f.settle()
		require.Equal(t, &spec{PotentialNodes: []string{"a", "b"}}, f.has("p"))
		require.Equal(t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: p.UID, Controller: ptr.To(true)}},
			f.Context(p).OwnerReferences, "it needs no right to update finalizers of pods")

		f.server.Answer("p", not("c", "a"))
		f.settle()
		require.Equal(t, []string{"a"}, f.Context(p).OfClaim("c").UnsuitableNodes)
		require.Equal(t, []string{"p", "p c"}, f.told)
		f.Ask(p, spec{SelectedNode: "b", PotentialNodes: []string{"a", "b"}})
		f.settle()
		require.Equal(t, "b", f.has("p").SelectedNode)
		require.Equal(t, []string{"create p", "update p"}, f.server.Took())

		f.Ask(p, spec{SelectedNode: "b", PotentialNodes: []string{"a", "b"}})
		f.settle()
		require.Empty(t, f.server.Took(), "there was nothing to change")
		f.End(p)
		f.settle()
		require.Nil(t, f.has("p"))
		require.Nil(t, f.Context(p))
		require.Equal(t, "p ended", f.told[len(f.told)-1])
	})
}

// What was written counts before the watch delivers it.
func TestWatchIsLate(t *testing.T) {
	t.Parallel()
	negotiate(t, classictest.NewServer(), func(f *fixture) {
		p := builder.Pod("p")
		f.server.SetSilent(true)
		f.Ask(p, spec{PotentialNodes: []string{"a"}})
		f.settle()
		require.Equal(t, []string{"a"}, f.Context(p).Spec.PotentialNodes)
		f.Ask(p, spec{SelectedNode: "a", PotentialNodes: []string{"a"}})
		f.settle()
		require.Equal(t, []string{"create p", "update p"}, f.server.Took())
		// A driver has answered, which we do not hear: the write is refused once.
		f.server.Answer("p", not("c"))
		f.Ask(p, spec{})
		f.settle()
		require.Equal(t, []string{"update p", "get p", "update p"}, f.server.Took())
		require.Equal(t, &spec{}, f.has("p"))
		require.Len(t, f.server.Stored("p").Status.ResourceClaims, 1)
		// An unheard end is made good, too.
		require.NoError(t, f.server.Delete(f.ctx, "p", metav1.DeleteOptions{}))
		f.server.Took()
		f.Ask(p, spec{SelectedNode: "b"})
		f.settle()
		require.Equal(t, []string{"update p", "get p", "create p"}, f.server.Took())
		f.End(p)
		f.settle()
		require.Nil(t, f.has("p"))
	})
}

func TestServerIsDown(t *testing.T) {
	t.Parallel()
	negotiate(t, classictest.NewServer(), func(f *fixture) {
		p := builder.Pod("p")
		f.server.SetDown(true)
		f.Ask(p, spec{SelectedNode: "a"})
		time.Sleep(10 * time.Second)
		f.Ask(p, spec{SelectedNode: "b"}) // The latest wish counts.
		time.Sleep(10 * time.Second)
		require.Nil(t, f.has("p"))
		f.server.SetDown(false)
		time.Sleep(time.Minute)
		require.Equal(t, &spec{SelectedNode: "b"}, f.has("p"))
		f.server.SetDown(true)
		f.End(p)
		time.Sleep(10 * time.Second)
		f.server.SetDown(false)
		time.Sleep(time.Minute)
		require.Nil(t, f.has("p"))
	})
}

// A pod that is gone, or bound, is not negotiated for; also if it was a moment ago.
func TestPodIsGone(t *testing.T) {
	t.Parallel()
	negotiate(t, classictest.NewServer(), func(f *fixture) {
		f.gone["p"] = true
		f.Ask(builder.Pod("p"), spec{SelectedNode: "a"})
		f.Free(builder.Pod("p"), seen(t, "a"))
		f.settle()
		require.Empty(t, f.server.Took())
		require.False(t, f.claims.requested())
	})
}

// The context of an earlier pod of that name is of no use.
func TestContextOfAnotherPod(t *testing.T) {
	t.Parallel()
	s := classictest.NewServer()
	earlier := builder.Pod("p")
	earlier.UID = "earlier"
	_, err := s.Create(t.Context(), newContext(earlier, &spec{SelectedNode: "a"}), metav1.CreateOptions{})
	require.NoError(t, err)
	s.Took()
	negotiate(t, s, func(f *fixture) {
		require.Nil(t, f.Context(builder.Pod("p")))
		f.Ask(builder.Pod("p"), spec{PotentialNodes: []string{"b"}})
		f.settle()
		require.Equal(t, []string{"create p", "get p", "delete p", "create p"}, s.Took())
		require.Equal(t, &spec{PotentialNodes: []string{"b"}}, f.has("p"))
		require.Equal(t, builder.Pod("p").UID, metav1.GetControllerOf(f.Context(builder.Pod("p"))).UID)
	})
}

// freeInVain has a pod negotiate, and then want its claim freed while the server is down.
func (f *fixture) freeInVain(t *testing.T) *v1.Pod {
	t.Helper()
	p := builder.Pod("p")
	f.Ask(p, spec{SelectedNode: "a", PotentialNodes: []string{"a", "b"}})
	f.settle()
	f.server.SetDown(true)
	f.Free(p, seen(t, "a"))
	time.Sleep(10 * time.Second)
	return p
}

// A driver is told not to allocate for the selected node before it is asked to free.
func TestFree(t *testing.T) {
	t.Parallel()
	negotiate(t, classictest.NewServer(), func(f *fixture) {
		f.freeInVain(t)
		require.False(t, f.claims.requested())
		f.server.SetDown(false)
		time.Sleep(time.Minute)
		require.Equal(t, &spec{PotentialNodes: []string{"a", "b"}}, f.has("p"))
		require.True(t, f.claims.requested())
	})
}

// A pod that can use its claim after all keeps it, whenever the server is back.
func TestFreeIsWithdrawn(t *testing.T) {
	t.Parallel()
	negotiate(t, classictest.NewServer(), func(f *fixture) {
		f.Withdraw(f.freeInVain(t))
		f.server.SetDown(false)
		f.server.Took()
		time.Sleep(time.Minute)
		require.Empty(t, f.server.Took())
		require.False(t, f.claims.requested())
	})
}

// It keeps the claim also if the request is about to be written: the context has been.
func TestFreeIsWithdrawnInTheMiddle(t *testing.T) {
	t.Parallel()
	negotiate(t, classictest.NewServer(), func(f *fixture) {
		p := builder.Pod("p")
		c := seen(t, "a")
		turn, err := f.claims.locks.Lock(f.ctx, c.Object.UID)
		require.NoError(t, err)
		f.Free(p, c)
		f.settle()
		f.Withdraw(p)
		turn.End(nil)
		f.settle()
		require.False(t, f.claims.requested())
		require.NoError(t, f.claims.Reserve(f.ctx, c, p))
	})
}

// Without a context no driver allocates, so there is no need to create one to deselect the node.
func TestFreeWithoutContext(t *testing.T) {
	t.Parallel()
	negotiate(t, classictest.NewServer(), func(f *fixture) {
		f.Free(builder.Pod("p"), seen(t, "a"))
		f.settle()
		require.Empty(t, f.server.Took())
		require.True(t, f.claims.requested())
	})
}

// What exists at the start is known, and told.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := classictest.NewServer()
	_, err := s.Create(t.Context(), newContext(builder.Pod("p"), &spec{SelectedNode: "a"}), metav1.CreateOptions{})
	require.NoError(t, err)
	negotiate(t, s, func(f *fixture) {
		f.settle()
		require.Empty(t, cmp.Diff(spec{SelectedNode: "a"}, f.Context(builder.Pod("p")).Spec))
		require.Equal(t, []string{"p"}, f.told)
	})
}
