package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/limiter"
)

// TestRoomForWrites: while claims of many pods are being written, Reserve waits for a moment, but not for pods that
// others wait for.
func TestRoomForWrites(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		edits []func(*v1.Pod)
		want  time.Duration
	}{
		"a pod on its own": {want: limiter.Patience},
		"a pod of a gang":  {edits: []func(*v1.Pod){member}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(gpuNodes(1, "n1"), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
				for range limiter.Limit {
					f.pl.state.Writes.Enter()
				}
				a := f.mustBegin(newPod("p", append(test.edits, uses("c"))...)).filter()
				begin := time.Now()
				require.NoError(t, a.reserve("n1").AsError())
				require.Equal(t, test.want, time.Since(begin))
				require.NoError(t, a.preBind("n1").AsError())
			})
		})
	}
}

// TestPodsAtPermitTakeNoRoom: what plugins have wait at Permit can do so for minutes.
func TestPodsAtPermitTakeNoRoom(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]bool{"waits": true, "goes on": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(gpuNodes(1, "n1"), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
				for range limiter.Limit - 1 {
					f.pl.state.Writes.Enter()
				}
				a := f.mustBegin(newPod("p", uses("c"))).filter()
				require.NoError(t, a.reserve("n1").AsError())
				if waits {
					f.pl.handle.(framework.Framework).AddWaitingPod(a.pod, map[string]time.Duration{"a plugin": time.Minute})
				}
				_, status := f.pl.PreBindPreFlight(f.ctx, a.state, a.pod, "n1")
				require.NoError(t, status.AsError())
				require.Equal(t, waits, f.pl.state.Writes.Wait(t.Context()) == 0)
				if waits {
					f.pl.handle.RejectWaitingPod(a.pod.UID)
					require.Error(t, f.pl.handle.(framework.Framework).WaitOnPermit(f.ctx, a.pod).AsError())
				}
				a.unreserve("n1")
				require.Zero(t, f.pl.state.Writes.Wait(t.Context()))
			})
		})
	}
}
