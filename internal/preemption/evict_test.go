package preemption

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// slowToStop is the handle of a scheduler in which the PreBind of a pod goes on for a while after it was told to stop.
type slowToStop struct {
	fwk.Handle
	binding *stopping
}

type stopping struct{ ends time.Time }

func (s *stopping) CancelPod(string) bool { return true }
func (s *stopping) MarkPrebound() bool    { return false }

func (h *slowToStop) GetWaitingPod(types.UID) fwk.WaitingPod { return nil }
func (h *slowToStop) EventRecorder() events.EventRecorderLogger {
	return &events.FakeRecorder{}
}

func (h *slowToStop) GetPodInPreBind(types.UID) fwk.PodInPreBind {
	if time.Now().Before(h.binding.ends) {
		return h.binding
	}
	return nil
}

// TestPreemptorWaitsForThatWhichStops: upstream activates the preemptor when the eviction returns. The victim counts on its node until
// its PreBind has ended, so that a preemptor that is activated before is tried again without a pause.
func TestPreemptorWaitsForThatWhichStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ends := time.Now().Add(3 * time.Second)
		highest := int32(1000)
		preemptor := groupPreemptor{&gangPreemptor{Pod: builder.Pod("high", func(pod *v1.Pod) { pod.Spec.Priority = &highest })}}
		victim := builder.Pod("low")
		for _, inBackground := range []bool{false, true} {
			begin := time.Now()
			e := &eviction{handle: &slowToStop{binding: &stopping{ends: ends}}, tell: func(*v1.Pod) string { return "" }, gangs: wholeGang{}, inBackground: inBackground}
			unbound, err := e.evictAll(context.Background(), nodeOf{victim}, preemptor, victim, "Quartermaster")
			require.NoError(t, err)
			require.True(t, unbound)
			if inBackground {
				require.False(t, time.Now().Before(ends), "the PreBind has ended")
			} else {
				require.Equal(t, begin, time.Now(), "a scheduling cycle does not wait")
			}
		}
	})
}
