package commit

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// process is a process that schedules, and counts the pods that are tried again.
type process struct {
	began time.Time
	tried atomic.Int64
}

func (p *process) LeadsSince() time.Time { return p.began }

func (p *process) Activate(_ klog.Logger, pods map[string]*v1.Pod) { p.tried.Add(int64(len(pods))) }

// inPause runs a test with a pause that begins now, and what was tried again after it.
func inPause(t *testing.T, test func(t *testing.T, p *Pause, tried func() int)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		process := &process{began: time.Now()}
		p := New(klog.Background(), time.Minute, process, process)
		test(t, p, func() int { synctest.Wait(); return int(process.tried.Load()) })
	})
}

func reserved(claim *resourceapi.ResourceClaim, consumer types.UID) *resourceapi.ResourceClaim {
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "p", UID: consumer})
	return claim
}

func TestWhatWasFoundIsLeftAlone(t *testing.T) {
	t.Parallel()
	inPause(t, func(t *testing.T, p *Pause, tried func() int) {
		pod := builder.Pod("p")
		claim := builder.Claim("c").Obj()
		require.False(t, p.FoundReserved(claim, pod.UID, pod), "it is reserved for nobody")
		require.False(t, p.Keeps(pod))
		claim = reserved(claim, pod.UID)
		require.True(t, p.FoundReserved(claim, pod.UID, pod))
		require.True(t, p.LeavesAlone(claim.UID, pod.UID, pod))
		require.True(t, p.Keeps(pod))
		require.Contains(t, p.Message("claim default/c"), "claim default/c was reserved for the pod by another process")
		require.Zero(t, tried())

		time.Sleep(time.Minute)
		require.Equal(t, 1, tried(), "once, however often it was left alone")
		require.False(t, p.LeavesAlone(claim.UID, pod.UID, pod))
		require.False(t, p.Keeps(pod))
	})
}

func TestWhatThisProcessHasReservedIsItsOwn(t *testing.T) {
	t.Parallel()
	inPause(t, func(t *testing.T, p *Pause, tried func() int) {
		pod := builder.Pod("p")
		claim := builder.Claim("c").Obj()
		p.Made(claim, reserved(claim.DeepCopy(), pod.UID), pod.UID)
		require.False(t, p.LeavesAlone(claim.UID, pod.UID, pod))
		require.True(t, p.LeavesAlone(claim.UID, "another", pod))

		// This process only confirmed an existing reservation, by raising the fence.
		found := reserved(builder.Claim("d").Obj(), pod.UID)
		raised := found.DeepCopy()
		raised.Annotations = map[string]string{write.FenceAnnotation: "7"}
		require.NotEqual(t, write.Fence(found), write.Fence(raised))
		p.Made(found, raised, pod.UID)
		require.True(t, p.LeavesAlone(found.UID, pod.UID, pod))
		p.Made(raised, raised, pod.UID)
		require.True(t, p.LeavesAlone(found.UID, pod.UID, pod), "once found, always found")
	})
}
