package quartermaster

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
)

// TestPodsTakeTurns: of pods of a namespace that find no node, a few are queued. Others are told why they are not, and are
// activated as these are tried.
func TestPodsTakeTurns(t *testing.T) {
	t.Parallel()
	const pods = 40
	var objects []runtime.Object
	for i := range pods {
		name := fmt.Sprintf("p%02d", i)
		objects = append(objects, gpus(name, 9).Obj(), newPod(name, uses(name)))
	}
	inCluster(t, append(gpuNodes(1, "n1"), objects...), func(t *testing.T, f *fixture) {
		var queued, kept []*v1.Pod
		for i := range pods {
			pod := f.pod(fmt.Sprintf("p%02d", i))
			if f.pl.PreEnqueue(f.ctx, pod).IsSuccess() {
				queued = append(queued, pod)
			} else {
				kept = append(kept, pod)
			}
		}
		require.NotEmpty(t, queued)
		require.Greater(t, len(kept), len(queued))
		require.True(t, f.pl.PreEnqueue(f.ctx, newPod("member", builder.InGroup("g"))).IsSuccess(), "its group is queued as a whole")
		require.True(t, f.pl.PreEnqueue(f.ctx, newPod("gated", func(pod *v1.Pod) { pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} })).IsSuccess())

		f.afterDelay()
		last := kept[len(kept)-1]
		require.Contains(t, scheduled(f.pod(last.Name)).Message, "tried in turn with pods of other namespaces")

		tried := 0
		for ; len(queued) > 0; tried++ {
			f.forget()
			require.NotEmpty(t, f.schedule(queued[0]).phase)
			f.settle()
			queued = queued[1:]
			for _, key := range f.names() {
				queued = append(queued, f.pod(key[len("default/"):]))
			}
			require.LessOrEqual(t, len(queued), 12)
		}
		require.Equal(t, pods, tried, "each once")
		time.Sleep(time.Hour)
	})
}
