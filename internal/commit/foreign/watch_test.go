package foreign

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/allocationlog"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

const settleTime = time.Second

// foreignWorld is a Cluster in which each pod has one claim, of the same name, for devices of one driver,
// which the claim's annotation names.
type foreignWorld struct {
	*Watch
	settles time.Duration
	claims  map[string]*resourceapi.ResourceClaim
	drivers map[*allocator.Task]string
}

func newForeignWorld(t testing.TB) *foreignWorld {
	w := &foreignWorld{settles: settleTime, claims: make(map[string]*resourceapi.ResourceClaim), drivers: make(map[*allocator.Task]string)}
	w.Watch = &Watch{
		Competitors: New(clock.RealClock{}, needs(func(*v1.Pod) bool { return true })),
		Order:       allocationlog.New(fake.NewClientset(), func(inventory.PoolID) *inventory.NodePool { return nil }, clock.RealClock{}),
		Cluster:     w,
	}
	require.Empty(t, w.view(0).crowds)
	return w
}

func (w *foreignWorld) SettleTime() time.Duration { return w.settles }

func (w *foreignWorld) Claim(_, name string) *resourceapi.ResourceClaim { return w.claims[name] }

func (w *foreignWorld) Of(pod *v1.Pod) ([]*resourceapi.ResourceClaim, error) {
	if claim := w.claims[pod.Name]; claim != nil {
		return []*resourceapi.ResourceClaim{claim}, nil
	}
	return nil, errors.New("there is no claim yet")
}

func (w *foreignWorld) ClaimToMake(*v1.Pod) *resourceapi.ResourceClaim { return nil }

func (w *foreignWorld) Prepare(claim *resourceapi.ResourceClaim) *allocator.Task {
	task := (&allocator.Solver{}).Prepare([]*resourceapi.ResourceClaim{{ObjectMeta: claim.ObjectMeta}})
	w.drivers[task] = claim.Annotations["driver"]
	if exactly := claim.Spec.Devices.Requests[0].Exactly; exactly != nil && claim.Name == "" {
		w.drivers[task] = exactly.DeviceClassName
	}
	return task
}

func (w *foreignWorld) CouldUse(task *allocator.Task, pools map[inventory.PoolID][]string) bool {
	for pool := range pools {
		if pool.Driver == w.drivers[task] {
			return true
		}
	}
	return false
}

// contend adds a pod of another scheduler with a claim for devices of a driver.
func (w *foreignWorld) contend(name, driver string, edits ...func(*v1.Pod)) {
	w.claim(name, driver)
	w.wait(name, edits...)
}

// claim adds a claim for the device of a driver.
func (w *foreignWorld) claim(name, driver string) {
	w.claims[name] = &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{"driver": driver}},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: driver, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: driver},
		}}}},
	}
}

// wait adds a pod of another scheduler whose claim perhaps does not exist.
func (w *foreignWorld) wait(name string, edits ...func(*v1.Pod)) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("pod-" + name)}, Spec: v1.PodSpec{SchedulerName: "other"}}
	for _, edit := range edits {
		edit(pod)
	}
	w.Competitors.Add(pod, false)
}

func reject(pod *v1.Pod) {
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
}

func nominate(pod *v1.Pod) { pod.Status.NominatedNodeName = "n" }

func elsewhere(pod *v1.Pod) { pod.Namespace = "elsewhere" }

// begin begins to settle for a pod that has waited for the given time.
func (w *foreignWorld) begin(waited time.Duration, allocations ...*resourceapi.AllocationResult) *Settling {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}, Spec: v1.PodSpec{SchedulerName: "ours"}}
	w.Competitors.Own("ours")
	w.Competitors.Add(pod, false)
	time.Sleep(waited)
	return w.Begin(pod, allocations...)
}

// allocation returns an allocation of a device of driver "gpu".
func allocation() *resourceapi.AllocationResult {
	return &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "gpu", Pool: "n", Device: "gpu-0"}}}}
}

// TestForHowLongToSettle: claims settle if a conflict is possible, and while other schedulers are about
// to allocate something.
func TestForHowLongToSettle(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change        func(*foreignWorld)
		before, after time.Duration
		contested     bool
	}{
		"alone":                  {change: func(*foreignWorld) {}},
		"other devices":          {change: func(w *foreignWorld) { w.contend("theirs", "nic") }},
		"the claim is not there": {change: func(w *foreignWorld) { w.wait("theirs") }},
		"a new pod":              {change: func(w *foreignWorld) { w.contend("theirs", "gpu") }, before: settleTime, after: settleTime, contested: true},
		"a pod that nobody looks after": {change: func(w *foreignWorld) { w.contend("theirs", "gpu"); time.Sleep(Youth + time.Second) },
			after: settleTime, contested: true},
		"nothing more is known of it": {change: func(w *foreignWorld) { w.contend("theirs", "gpu"); time.Sleep(2 * Memory) }},
		"a rejected pod":              {change: func(w *foreignWorld) { w.contend("theirs", "gpu", reject) }, after: settleTime, contested: true},
		"a nominated pod": {change: func(w *foreignWorld) { w.contend("theirs", "gpu", nominate) },
			before: MaxSettleTimes * settleTime, after: MaxSettleTimes * settleTime, contested: true},
		"a nominated pod whose scheduler takes part": {change: func(w *foreignWorld) {
			w.contend("theirs", "gpu", nominate)
			w.Competitors.Learn("other", true)
		}},
		"off": {change: func(w *foreignWorld) {
			w.contend("theirs", "gpu", nominate)
			w.settles = 0
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newForeignWorld(t)
				test.change(w)
				waited, err := w.begin(0, allocation()).BeforeWrite(t.Context(), func() bool { return false })
				require.NoError(t, err)
				require.InDelta(t, test.before.Seconds(), waited.Seconds(), (settleTime / SettleSteps).Seconds())
				settling := w.begin(0, allocation())
				require.Equal(t, test.contested, settling.Contested())
				if !test.contested {
					return
				}
				waited, err = settling.AfterWrite(t.Context(), func() {})
				require.NoError(t, err)
				require.InDelta(t, test.after.Seconds(), waited.Seconds(), (settleTime / SettleSteps).Seconds())
			})
		})
	}
}

// TestOldAllocationsDoNotSettle: every write that is based on a view from before an old allocation has
// been made by now.
func TestOldAllocationsDoNotSettle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newForeignWorld(t)
		w.contend("theirs", "gpu", reject)
		old := allocation()
		old.AllocationTimestamp = &metav1.Time{Time: time.Now().Add(-2 * allocationAge)}
		require.False(t, w.begin(0, old, nil).Contested())
		require.True(t, w.begin(0, old, nil, allocation()).Contested())
	})
}

// TestEndOfAWait: a wait ends when enough returns true, and when the attempt ends.
func TestEndOfAWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newForeignWorld(t)
		w.contend("theirs", "gpu", nominate)
		waited, err := w.begin(0, allocation()).BeforeWrite(t.Context(), func() bool { return true })
		require.NoError(t, err)
		require.Equal(t, settleTime/SettleSteps, waited)

		gone := errors.New("nobody wants the pod any more")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		_, err = w.begin(0, allocation()).AfterWrite(ctx, func() {})
		require.ErrorIs(t, err, gone)
	})
}

// TestElsewhere: for other namespaces, a pod waits for a small part of the time that it has waited, and
// never long.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	const longest = 400 * time.Millisecond
	many := func(w *foreignWorld) {
		for i := range 3 * maxContested {
			w.contend(fmt.Sprint("theirs-", i), fmt.Sprint("nic-", i), elsewhere, nominate)
		}
	}
	for name, test := range map[string]struct {
		change        func(*foreignWorld)
		waited        time.Duration
		before, after time.Duration
	}{
		"a new pod of ours":       {change: func(w *foreignWorld) { w.contend("theirs", "gpu", elsewhere, nominate) }},
		"one that has waited":     {change: func(w *foreignWorld) { w.contend("theirs", "gpu", elsewhere, nominate) }, waited: 2400 * time.Millisecond, before: 100 * time.Millisecond, after: 100 * time.Millisecond},
		"one that waits for long": {change: func(w *foreignWorld) { w.contend("theirs", "gpu", elsewhere, nominate) }, waited: time.Hour, before: longest / 2, after: longest / 2},
		"nobody has decided":      {change: func(w *foreignWorld) { w.contend("theirs", "gpu", elsewhere, reject) }, waited: time.Hour, after: longest},
		"other devices":           {change: func(w *foreignWorld) { w.contend("theirs", "nic", elsewhere, nominate) }, waited: time.Hour},
		"too much to look at":     {change: many, waited: time.Hour, before: longest / 2, after: longest / 2},
		"too much for a new pod":  {change: many},
		"many namespaces": {waited: time.Hour, before: longest / 2, after: longest / 2, change: func(w *foreignWorld) {
			for i := range 50 {
				w.contend(fmt.Sprint("theirs-", i), "gpu", func(pod *v1.Pod) { pod.Namespace = fmt.Sprint("elsewhere-", i) }, nominate)
			}
		}},
		"a scheduler that takes part": {waited: time.Hour, change: func(w *foreignWorld) {
			w.contend("theirs", "gpu", elsewhere, nominate)
			w.Competitors.Learn("other", true)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newForeignWorld(t)
				w.begin(0)
				time.Sleep(test.waited)
				test.change(w)
				settling := w.begin(0, allocation())
				waited, err := settling.BeforeWrite(t.Context(), func() bool { return false })
				require.NoError(t, err)
				require.InDelta(t, test.before.Seconds(), waited.Seconds(), (settleTime / SettleSteps).Seconds())
				settling = w.begin(0, allocation())
				require.Equal(t, test.after > 0, settling.Contested())
				waited, err = settling.AfterWrite(t.Context(), func() {})
				require.NoError(t, err)
				require.InDelta(t, test.after.Seconds(), waited.Seconds(), (settleTime / SettleSteps).Seconds())
				if test.before+test.after >= longest {
					require.False(t, w.begin(time.Hour, allocation()).Contested(), "nothing is left for another attempt")
				}
			})
		})
	}
}

// TestYield: a pod that must yield to a claim of the same namespace waits for the settle time; if the
// claim is of another namespace, it waits for the time that it can spare.
func TestYield(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		to           string
		waited, want time.Duration
	}{
		"here":                   {to: "ns", want: settleTime},
		"elsewhere":              {to: "elsewhere"},
		"elsewhere, after a day": {to: "elsewhere", waited: 24 * time.Hour, want: 400 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newForeignWorld(t)
				settling := w.begin(test.waited, allocation())
				require.False(t, settling.Contested())
				settling.Yield(test.to)
				require.Equal(t, test.want > 0, settling.Contested())
				waited, err := settling.AfterWrite(t.Context(), func() {})
				require.NoError(t, err)
				require.InDelta(t, test.want.Seconds(), waited.Seconds(), (settleTime / SettleSteps).Seconds())
			})
		})
	}
}

// TestManyContestedClaims: claims beyond the limit count as if they could use any device.
func TestManyContestedClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newForeignWorld(t)
		for i := range maxContested {
			w.contend(fmt.Sprint("theirs-", i), fmt.Sprint("nic-", i))
		}
		require.Len(t, w.view(0).crowds["ns"].contested(w.Watch), maxContested)
		require.False(t, w.begin(0, allocation()).Contested())
		w.contend("one more", "nic")
		require.Len(t, w.view(0).crowds["ns"].contested(w.Watch), maxContested+1)
		require.True(t, w.begin(0, allocation()).Contested())
	})
}

// TestDearView: a view that took long to make is used for some time, together with newer competitors.
func TestDearView(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newForeignWorld(t)
		w.contend("first", "nic")
		w.Cost = func(time.Time) time.Duration { return 2 * cheapView }
		taken := w.view(0).taken
		time.Sleep(viewShare * cheapView)
		w.contend("second", "gpu")
		require.Equal(t, taken, w.view(0).taken, "there is no need to look at everything")
		require.True(t, w.begin(0, allocation()).Contested(), "but nobody is missed")
		require.Len(t, w.latest.crowds["ns"].contested(w.Watch), 2)
		time.Sleep(viewShare * cheapView)
		require.NotEqual(t, taken, w.view(0).taken)
	})
}
