package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/queue"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// sleep tries pods that the current plugin rejects, and waits until their pauses are over.
func (f *fixture) sleep(pods ...*v1.Pod) {
	for _, pod := range pods {
		require.False(f.t, f.fits(pod), pod.Name)
	}
	time.Sleep(queue.LongestPause)
	f.settle()
	f.forget()
}

// asProfile runs a function with another profile's plugin.
func (f *fixture) asProfile(pl *Quartermaster, do func()) {
	own := f.pl
	f.pl = pl
	defer func() { f.pl = own }()
	do()
}

// TestGivenUpWakes: a pod with devices in flight will not be bound. No event of the API shows that. Pods of all
// profiles wait for the devices: they share the ledger.
func TestGivenUpWakes(t *testing.T) {
	t.Parallel()
	objects := plus(gpuNodes(1, "n1"), builder.Class("nic", `device.driver == "nic.example.com"`),
		gpus("a", 1).Obj(), gpus("b", 1).Obj(), gpus("c", 1).Obj(), builder.Claim("nic", builder.Request("r", "nic")).Obj())
	var pods []*v1.Pod
	for _, pod := range []*v1.Pod{
		newPod("failing", uses("a")), newPod("sharing", uses("a")), newPod("waiting", uses("b")),
		newPod("elsewhere", uses("c")), newPod("others", uses("nic")),
	} {
		pods = append(pods, pod)
		objects = append(objects, pod)
	}
	failing, sharing, waiting, elsewhere, others := pods[0], pods[1], pods[2], pods[3], pods[4]
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		another := newProfile(f, "another")
		f.settle()
		f.forget() // They were when their claims were created.
		a := f.mustBegin(failing).filter()
		a.unreserve("n1") // Nothing was reserved.
		require.Empty(t, f.names())
		require.NoError(t, a.reserve("n1").AsError())
		f.asProfile(another, func() { f.sleep(elsewhere) })
		f.sleep(waiting, sharing, others)

		a.unreserve("n1")
		require.ElementsMatch(t, []string{"default/elsewhere", "default/sharing", "default/waiting"}, f.names(),
			"those that wait for the device or for the claim; its own failure does not help a pod")
		require.True(t, f.fits(waiting))
		f.forget()

		b := f.mustBegin(failing).filter()
		require.NoError(t, b.reserve("n1").AsError())
		_, status := f.begin(sharing)
		require.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
		a.unreserve("n1") // Is idempotent.
		require.Empty(t, f.names())
		b.unreserve("n1")
		require.Empty(t, f.names(), "who was rejected a moment ago has to wait")
		time.Sleep(queue.LongestPause)
		f.settle()
		require.Contains(t, f.names(), "default/sharing")
	})
}

// TestWriteAndReleaseWithinRelist: the plugin's own write was rolled back before the informer saw either. To the
// informer, nothing has happened.
func TestWriteAndReleaseWithinRelist(t *testing.T) {
	t.Parallel()
	beforeEvents(t, func(t *testing.T, f *fixture) {
		f.claimWorld()
		another := newProfile(f, "another")
		waiting, elsewhere := newPod("waiting", uses("w")), newPod("elsewhere", uses("e"))
		f.arrive(waiting, elsewhere, gpus("w", 2).Obj(), gpus("e", 2).Obj())
		other := version(gpus("other", 1).Obj(), "10")
		f.arrive(other)
		f.pl.state.RefreshClaim("default/other")

		f.pl.commits.Observe(f.ctx, other, version(gpus("other", 1).Allocated("n1", "gpu-0"), "11"))
		f.asProfile(another, func() { f.sleep(elsewhere) })
		f.sleep(waiting)
		f.pl.commits.Observe(f.ctx, other, version(gpus("other", 1).Obj(), "12"))
		require.ElementsMatch(t, []string{"default/elsewhere", "default/waiting"}, f.names())

		f.forget()
		tell(t, f.pl.state.claimChanged, other, version(gpus("other", 1).Obj(), "12"), false)
		require.Empty(t, f.names(), "it was known")
	})
}

// TestGoneWakes: the server says that a claim is gone for which the ledger has devices.
func TestGoneWakes(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("b", 1).Obj(), newPod("waiting", uses("b"))), func(t *testing.T, f *fixture) {
		gone := version(gpus("gone", 1).Allocated("n1", "gpu-0"), "11")
		require.NoError(t, f.pl.state.Ledger.AddInFlight(ledger.RefTo(gone), "pod", gone.Status.Allocation))
		f.pl.commits.Observe(f.ctx, gone, gone)
		f.pl.state.Ledger.RemoveInFlight(gone.UID, "pod")
		f.sleep(f.pod("waiting"))
		f.pl.commits.Observe(f.ctx, gone, nil)
		require.Contains(t, f.names(), "default/waiting")
	})
}
