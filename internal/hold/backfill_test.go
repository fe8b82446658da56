package hold

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// against returns what the holds keep from a job.
func against(holds []*Hold, j *job, now time.Time) (uses []ledger.Use, bound bool) {
	for _, h := range holds {
		if h.Binds(j.Pod, "", j.priority, now) {
			uses, bound = append(uses, h.All()...), true
		}
	}
	return uses, bound
}

// TestNoDelay: in a stream of small pods, the first holder starts when its hold said at first that it would, or before. Pods
// with a deadline use held devices meanwhile.
func TestNoDelay(t *testing.T) {
	t.Parallel()
	filled, started := 0, 0
	forRandom(t, func(t *testing.T, random *rand.Rand) {
		c := randomCluster(random)
		c.fill(random, 1)
		pods := 1 + random.IntN(2)
		first := c.waiting("first", 0, epoch, pods, 1+random.IntN(6))
		waiting := []*Waiting{first, c.waiting("second", 0, epoch.Add(time.Minute), 1, 1+random.IntN(4))}
		promise := time.Time{}
		for minute := range 80 {
			c.pass(time.Minute)
			holds := c.world(noLimits, random).Plan(waiting)
			if len(holds) == 0 || holds[0].Waiting != first {
				return // It fits in no cluster.
			}
			if holds[0].Ready {
				started++
				return
			}
			if promise.IsZero() {
				promise = holds[0].Begin
			}
			require.False(t, holds[0].Begin.IsZero(), "minute %d", minute)
			require.False(t, holds[0].Begin.After(promise), "minute %d: begin moved to %s, promised was %s", minute, holds[0].Begin, promise)
			promise = holds[0].Begin
			require.True(t, promise.After(c.now), "minute %d: it does not fit although its devices were to be free", minute)
			for i := range 4 {
				j := newJob(fmt.Sprintf("new-%02d-%d", minute, i), 1+random.IntN(2), time.Duration(1+random.IntN(20))*time.Minute, 0)
				if random.IntN(2) == 0 {
					j = newJob(j.Name, j.size, j.runs, j.runs)
				}
				kept, _ := against(holds, j, c.now)
				if c.start(j, c.usage(kept...)) && len(kept) < len(holds[0].All())+len(allOf(holds[1:])) {
					filled++
				}
			}
		}
	})
	require.Positive(t, filled)
	require.Positive(t, started)
}

func allOf(holds []*Hold) (uses []ledger.Use) {
	for _, h := range holds {
		uses = append(uses, h.All()...)
	}
	return uses
}

// TestBinds: who must leave held devices alone.
func TestBinds(t *testing.T) {
	t.Parallel()
	c := newTestCluster(4)
	known := &Hold{Waiting: c.waiting("w", 10, epoch, 2, 1), Begin: epoch.Add(10 * time.Minute)}
	unknown := &Hold{Waiting: known.Waiting}
	evicts := *known.Waiting
	evicts.Evicts = true
	own := newJob("w-1", 1, 0, 0)
	for name, test := range map[string]struct {
		hold     *Hold
		pod      *v1.Pod
		group    string
		priority int32
		bound    bool
	}{
		"same priority":               {hold: known, pod: newJob("a", 1, 0, 0).Pod, priority: 10, bound: true},
		"lower priority":              {hold: known, pod: newJob("a", 1, 0, 0).Pod, priority: 9, bound: true},
		"higher priority":             {hold: known, pod: newJob("a", 1, 0, 0).Pod, priority: 11},
		"lower, can be evicted":       {hold: &Hold{Waiting: &evicts}, pod: newJob("a", 1, 0, 0).Pod, priority: 9},
		"same, holder evicts":         {hold: &Hold{Waiting: &evicts}, pod: newJob("a", 1, 0, 0).Pod, priority: 10, bound: true},
		"own pod":                     {hold: known, pod: own.Pod, priority: 10},
		"own group":                   {hold: known, pod: newJob("a", 1, 0, 0).Pod, group: "ns/w", priority: 10},
		"other group":                 {hold: known, pod: newJob("a", 1, 0, 0).Pod, group: "ns/v", priority: 10, bound: true},
		"gone before":                 {hold: known, pod: newJob("a", 1, 0, 9*time.Minute+30*time.Second).Pod, priority: 10},
		"gone after":                  {hold: known, pod: newJob("a", 1, 0, 9*time.Minute+31*time.Second).Pod, priority: 10, bound: true},
		"deadline, begin not known":   {hold: unknown, pod: newJob("a", 1, 0, time.Second).Pod, priority: 10, bound: true},
		"deadline longer than a life": {hold: known, pod: newJob("a", 1, 0, (maxSeconds+1)*time.Second).Pod, priority: 10, bound: true},
	} {
		require.Equal(t, test.bound, test.hold.Binds(test.pod, test.group, test.priority, epoch), name)
	}
	slow := newJob("a", 1, 0, 9*time.Minute)
	slow.Spec.TerminationGracePeriodSeconds = nil // The default is 30 seconds.
	require.False(t, known.Binds(slow.Pod, "", 10, epoch))
	require.True(t, known.Binds(slow.Pod, "", 10, epoch.Add(time.Second)))
}

// TestKeepsFrom: a hold keeps devices from all claims but the one that gets them, and those in use by pods of a booking also from their claim.
func TestKeepsFrom(t *testing.T) {
	t.Parallel()
	c := newTestCluster(4)
	h := &Hold{Waiting: c.waiting("w", 0, epoch, 2, 1), Uses: map[types.UID][]ledger.Use{
		"w-0": {useOf("a", "node-0", []string{"gpu-00"})}, "w-1": {useOf("b", "node-0", []string{"gpu-01"})},
	}}
	h.InUse, h.Briefly = []ledger.Use{useOf("runs", "node-0", []string{"gpu-02"})}, []ledger.Use{useOf("ends", "node-0", []string{"gpu-03"})}
	for device, from := range map[string][]types.UID{
		"gpu-00": {"b", "runs", "ends", "other"}, "gpu-01": {"a", "runs", "ends", "other"},
		"gpu-02": {"a", "b", "runs", "ends", "other"}, "gpu-03": {"a", "b", "runs", "ends", "other"}, "gpu-04": nil,
	} {
		var kept []types.UID
		for _, claim := range []types.UID{"a", "b", "runs", "ends", "other"} {
			if h.KeepsFrom(claim, allocationOf("node-0", []string{device})) {
				kept = append(kept, claim)
			}
		}
		require.Equal(t, from, kept, device)
	}
}

// TestTexts: reasons name only holders in the pod's own namespace, and the time only if it is known.
func TestTexts(t *testing.T) {
	t.Parallel()
	c := newTestCluster(4)
	group := &Hold{Waiting: c.waiting("train", 0, epoch, 2, 1), Begin: epoch.Add(150 * time.Minute)}
	pod := &Hold{Waiting: c.waiting("one", 0, epoch, 1, 1)}
	require.Equal(t, "group ns/train until about 14:30 UTC", group.For("ns")+group.Until(epoch))
	require.Equal(t, "a group of another namespace", group.For("other"))
	require.Equal(t, "pod ns/one", pod.For("ns")+pod.Until(epoch))
	require.Equal(t, "a pod of another namespace", pod.For(""))
}

// TestSurelyGone: the time until a pod starts counts, and only what somebody enforces is certain.
func TestSurelyGone(t *testing.T) {
	t.Parallel()
	h := &Hold{Waiting: &Waiting{}, Begin: epoch.Add(time.Hour)}
	volume := v1.Volume{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}}
	for name, test := range map[string]struct {
		minutes int
		group   string
		change  func(*v1.Pod)
		binds   bool
	}{
		"in time": {minutes: 59}, "the kubelet may be late": {minutes: 60, binds: true}, "group": {minutes: 50, group: "default/g", binds: true},
		"group in time": {minutes: 49, group: "default/g"},
		"volume":        {minutes: 50, change: func(pod *v1.Pod) { pod.Spec.Volumes = []v1.Volume{volume} }, binds: true},
		"expected only": {change: func(pod *v1.Pod) { pod.Annotations = map[string]string{ExpectedRunTimeAnnotation: "1m"} }, binds: true},
	} {
		pod := newJob("j", 1, 0, time.Duration(test.minutes)*time.Minute).Pod
		if test.minutes == 0 {
			pod = newJob("j", 1, 0, 0).Pod
		}
		if test.change != nil {
			test.change(pod)
		}
		require.Equal(t, test.binds, h.Binds(pod, test.group, 0, epoch), name)
	}
	pod := newJob("j", 1, 0, time.Hour).Pod
	require.True(t, h.Binds(pod, "", 0, epoch))
	pod.Status.StartTime = &metav1.Time{Time: epoch.Add(-time.Minute)}
	require.False(t, h.BindsRunning(pod, "", 0, epoch))
	require.True(t, h.BindsRunning(newJob("j", 1, 0, 0).Pod, "", 0, epoch))
}
