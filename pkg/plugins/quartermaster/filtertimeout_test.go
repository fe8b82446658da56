package quartermaster

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// tooShort is a timeout that is over before a search begins.
const tooShort = -time.Second

// TestFilterTimeout: a search that did not end gives no answer. The pod is tried again without an event, after a pause.
func TestFilterTimeout(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1", "n2"), gpus("c", 1).Obj(), newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
		f.pl.args.FilterTimeout.Duration = tooShort
		for _, pause := range []time.Duration{time.Second, 2 * time.Second} {
			f.forget()
			result := f.schedule(f.pod("p"))
			require.Equal(t, "Filter", result.phase)
			for _, node := range []string{"n1", "n2"} {
				require.Contains(t, result.reasons[node], "the search for them was given up after -1s (filterTimeout); trying again")
			}
			time.Sleep(pause - time.Millisecond)
			f.settle()
			require.Empty(t, f.activator.names(), "not without a pause: searching takes time from all others")
			time.Sleep(2 * time.Millisecond)
			f.settle()
			require.Equal(t, []string{"default/p"}, f.activator.names(), "without any event")
		}
		f.pl.args.FilterTimeout.Duration = time.Second
		require.Empty(t, f.schedule(f.pod("p")).phase)
	})
}

// TestFilterTimeoutOnOneNode: other nodes are looked at all the same.
func TestFilterTimeoutOnOneNode(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1", "n2"), gpus("c", 1).Obj(), newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
		f.pl.state.NodeCache.AtOnce = 0 // Filter is to look at the nodes.
		infos := f.nodeInfos()
		a := f.mustBegin(f.pod("p"))
		f.pl.args.FilterTimeout.Duration = tooShort
		require.False(t, f.pl.Filter(f.ctx, a.state, a.pod, infos[0]).IsSuccess())
		f.pl.args.FilterTimeout.Duration = time.Second
		require.True(t, f.pl.Filter(f.ctx, a.state, a.pod, infos[1]).IsSuccess())
		require.True(t, a.reserve("n2").IsSuccess())
		require.True(t, a.preBind("n2").IsSuccess())
		f.replace(newPod("p", uses("c"), func(pod *v1.Pod) { pod.Spec.NodeName = "n2" }))
		f.settle()
		f.forget() // Activated by the creation of its claim.
		time.Sleep(time.Minute)
		f.settle()
		require.Empty(t, f.activator.names(), "it is bound")
	})
}

// TestFilterTimeoutInReserve: Reserve looks for devices as well.
func TestFilterTimeoutInReserve(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
		a := f.mustBegin(newPod("p", uses("c"))).filter()
		f.pl.args.FilterTimeout.Duration = tooShort
		status := a.reserve("n1")
		require.Equal(t, fwk.Error, status.Code(), "the scheduler tries again after a pause")
		require.ErrorIs(t, status.AsError(), context.DeadlineExceeded)
		require.Contains(t, status.Message(), "(filterTimeout)")
	})
}

// TestFilterTimeoutOfTheIndex: the update of the node cache is limited too. After a timeout, Filter looks at each node.
func TestFilterTimeoutOfTheIndex(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("a", 1).Obj(), gpus("b", 1).Obj()), func(t *testing.T, f *fixture) {
		f.mustBegin(newPod("p", uses("a"))) // The index follows tasks that come again.
		f.pl.args.FilterTimeout.Duration = tooShort
		a := f.mustBegin(newPod("q", uses("b")))
		c, err := cycleOf(a.state)
		require.NoError(t, err)
		require.Nil(t, c.known)
		f.pl.args.FilterTimeout.Duration = time.Second
		require.Equal(t, []string{"n1"}, a.filter().feasible)
	})
}

// TestNoFilterTimeout: without a limit, a context is only what it was.
func TestNoFilterTimeout(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]*metav1.Duration{"gate off": nil, "0": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(gpuNodes(1, "n1"), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
				f.pl.args.FilterTimeout = timeout
				a := f.mustBegin(newPod("p", uses("c")))
				c, err := cycleOf(a.state)
				require.NoError(t, err)
				_, found := f.pl.searchContext(f.ctx, c).Deadline()
				require.False(t, found)
				require.Equal(t, []string{"n1"}, a.filter().feasible)
			})
		})
	}
}

// TestOuterContextEnds: the end of the scheduler's context is no timeout.
func TestOuterContextEnds(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("c", 1).Obj(), newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
		f.pl.state.NodeCache.AtOnce = 0 // Filter is to look at the nodes.
		f.forget()
		a := f.mustBegin(f.pod("p"))
		ctx, cancel := f.cancellable()
		cancel(errLost)
		status := f.pl.Filter(ctx, a.state, a.pod, f.nodeInfos()[0])
		require.Contains(t, status.Message(), "told to stop looking for devices: connection lost")
		time.Sleep(time.Minute)
		f.settle()
		require.Empty(t, f.activator.names())
	})
}
