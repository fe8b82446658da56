package quartermaster

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/hold/booking"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// deviceBooking returns a booking of some GPUs of one node for pods with the label app=train, from a time after the begin of the test on, for an
// hour.
func deviceBooking(name string, start time.Duration, gpus int64, edits ...func(*booking.DeviceBooking)) booking.DeviceBooking {
	b := booking.DeviceBooking{
		ObjectMeta: metav1.ObjectMeta{Namespace: builder.Namespace, Name: name, UID: "uid-booking", CreationTimestamp: metav1.Time{Time: bubbleBegins}},
		Spec: booking.Spec{
			Devices: builder.Claim("", builder.Request("gpu", "gpu").Count(gpus)).Obj().Spec.Devices, Count: 1,
			Start: &metav1.Time{Time: bubbleBegins.Add(start)}, Duration: metav1.Duration{Duration: time.Hour},
			PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "train"}}, GracePeriod: metav1.Duration{Duration: 15 * time.Minute},
		},
	}
	for _, edit := range edits {
		edit(&b)
	}
	return b
}

// book replaces the bookings, and waits for the next plan.
func (f *fixture) book(bookings ...booking.DeviceBooking) {
	f.pl.state.bookings.Set(bookings, &schedulingapi.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 10})
	f.nextPlan()
}

// nextPlan waits for the next plan.
func (f *fixture) nextPlan() {
	time.Sleep(2 * holdPause)
	f.settle()
}

// planned returns the condition Planned of the first booking.
func (f *fixture) planned() metav1.Condition {
	updates := f.pl.state.holdWorldOf(f.ctx, time.Now())
	plan := updates.Plan(updates.waiting)
	return *meta.FindStatusCondition(updates.updates(plan)[0].Next.Conditions, "Planned")
}

// inBooking runs a test with two nodes with two GPUs each and claims for pods.
func inBooking(t *testing.T, objects []runtime.Object, test func(*testing.T, *fixture)) {
	t.Helper()
	objects = plus(append(gpuNodes(2, "n1", "n2"), objects...), gpus("large", 2).Obj(), gpus("s", 1).Obj(), gpus("t", 1).Obj(), gpus("u", 1).Obj())
	inHolding(t, objects, func(t *testing.T, f *fixture) {
		require.Empty(t, f.schedule(newPod("without")).phase) // The plugin begins with the first attempt.
		test(t, f)
	})
}

// TestBooking: before the start and after it, others get none of the devices that are booked, and the pods that they are booked for do. A copy
// that such a pod has is not held any more.
func TestBooking(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]time.Duration{"before": time.Hour, "after": -time.Minute} {
		inBooking(t, nil, func(t *testing.T, f *fixture) {
			f.book(deviceBooking("b", start, 2))
			first := f.schedule(newPod("first", uses("s")))
			require.Equal(t, "n2", first.node, "%s: %v", name, first.reasons)
			require.Empty(t, f.schedule(newPod("second", uses("t"))).phase)
			refused := f.schedule(newPod("third", uses("u")))
			until := map[string]string{"before": "02:00", "after": "00:59"}[name]
			require.Equal(t, "held for booking default/b until about "+until+" UTC", refused.reasons["n1"], name)

			large := newPod("large", labeled("train"), uses("large"))
			f.create(large)
			require.Equal(t, "n1", f.schedule(large).node, name)
			bound := large.DeepCopy()
			bound.Spec.NodeName = "n1"
			f.replace(bound)
			f.nextPlan()
			require.Equal(t, "InUse", f.planned().Reason)
			f.gone("large")
			require.Contains(t, f.schedule(newPod("third", uses("u"))).reasons["n1"], "held for booking", "%s: at once, before the next plan", name)
			f.nextPlan()
			require.Len(t, f.pl.state.holds.Holds(), 1, "%s: it is held for the next pod", name)
			require.Equal(t, "Held", f.planned().Reason)
		})
	}
}

// TestBookingBinds: who may use booked devices before the start.
func TestBookingBinds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		edits []func(*v1.Pod)
		class string
		free  bool
	}{
		"same priority":         {},
		"higher priority":       {edits: []func(*v1.Pod){priority(1)}, free: true},
		"higher, booking too":   {edits: []func(*v1.Pod){priority(1)}, class: "high"},
		"higher than its class": {edits: []func(*v1.Pod){priority(11)}, class: "high", free: true},
		"gone before":           {edits: []func(*v1.Pod){deadline(59 * time.Minute)}, free: true},
		"gone after":            {edits: []func(*v1.Pod){deadline(61 * time.Minute)}},
	} {
		inBooking(t, nil, func(t *testing.T, f *fixture) {
			*f.pl.args.MaxHeldPercent, *f.pl.args.MaxHeldPercentPerNamespace = 100, 100
			f.book(deviceBooking("b", time.Hour, 2, func(b *booking.DeviceBooking) { b.Spec.Count, b.Spec.PriorityClassName = 2, test.class }))
			require.Equal(t, test.free, f.schedule(newPod("small", append(test.edits, uses("s"))...)).phase == "", name)
		})
	}
}

// TestBookingNotHeld: what is wrong with a booking is said in its condition, and keeps nobody from devices.
func TestBookingNotHeld(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		edit            func(*booking.DeviceBooking)
		reason, message string
	}{
		"too many":         {func(b *booking.DeviceBooking) { b.Spec.Count = 64 }, "CannotFit", "no nodes have the devices"},
		"more than half":   {func(b *booking.DeviceBooking) { b.Spec.Count = 2 }, "ExceedsLimit", "4 devices of class gpu"},
		"no such class":    {func(b *booking.DeviceBooking) { b.Spec.Devices.Requests[0].Exactly.DeviceClassName = "none" }, "InvalidSpec", "none"},
		"no such priority": {func(b *booking.DeviceBooking) { b.Spec.PriorityClassName = "none" }, "InvalidSpec", "there is no such PriorityClass"},
		"no time":          {func(b *booking.DeviceBooking) { b.Spec.Duration.Duration = 0 }, "InvalidSpec", "duration is 0s"},
		"no such domain":   {func(b *booking.DeviceBooking) { b.Spec.TopologyKey = "none" }, "CannotFit", "no nodes"},
		"broken expression": {func(b *booking.DeviceBooking) {
			b.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "device.("}}}
		}, "", "Syntax error"},
	} {
		inBooking(t, nil, func(t *testing.T, f *fixture) {
			f.book(deviceBooking("b", time.Hour, 2, test.edit))
			got := f.planned()
			if test.reason != "" {
				require.Equal(t, test.reason, got.Reason, "%s: %v", name, got)
			}
			require.Equal(t, metav1.ConditionFalse, got.Status, name)
			require.Contains(t, got.Message, test.message, name)
			require.Empty(t, f.pl.state.holds.Holds(), name)
			require.Empty(t, f.schedule(newPod("small", uses("s"))).phase, name)
		})
	}
}

// TestBookingQuota: bookings hold no more devices than the quota of their namespace allows for claims. The one that starts first comes first.
func TestBookingQuota(t *testing.T) {
	t.Parallel()
	const gpus = v1.ResourceName("gpu" + v1.ResourceClaimsPerClass)
	quota := &v1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: builder.Namespace, Name: "q"},
		Spec:       v1.ResourceQuotaSpec{Hard: v1.ResourceList{gpus: resource.MustParse("1")}},
	}
	named := func(b *booking.DeviceBooking) { b.UID = types.UID(b.Name) }
	inBooking(t, nil, func(t *testing.T, f *fixture) {
		bookings := []booking.DeviceBooking{
			deviceBooking("a", 3*time.Hour, 1, named), deviceBooking("b", time.Hour, 2, named), deviceBooking("c", 2*time.Hour, 1, named),
		}
		f.pl.state.bookings.Set(bookings, quota)
		f.nextPlan()
		require.Equal(t, []string{"default/c"}, slices.Collect(maps.Keys(f.holdsFor())))
		got := f.planned()
		require.Equal(t, "ExceedsQuota", got.Reason)
		require.Contains(t, got.Message, "1 devices of class gpu exceed a ResourceQuota: it allows 1 for the namespace, and 1 of them are for bookings that start earlier")
		quota = quota.DeepCopy()
		quota.Spec.Hard[gpus] = resource.MustParse("4")
		f.pl.state.bookings.Set(bookings, quota)
		f.nextPlan()
		require.NotEqual(t, "ExceedsQuota", f.planned().Reason)
	})
}

// TestBookingUnused: a booking that nobody uses ends after its grace period, and pods that wait are woken.
func TestBookingUnused(t *testing.T) {
	t.Parallel()
	small := newPod("small", uses("s"))
	inBooking(t, append(holder("a", "n2", "gpu-0"), append(holder("b", "n2", "gpu-1"), small)...), func(t *testing.T, f *fixture) {
		f.book(deviceBooking("b", 0, 2))
		f.sleep(small)
		time.Sleep(16*time.Minute - holdPause)
		f.nextPlan()
		require.Contains(t, f.names(), "default/small")
		require.True(t, f.fits(small))
	})
}

// TestBookingIsTaken: while a pod that a booking is for is bound, nobody else gets the devices, whatever comes of the attempt.
func TestBookingIsTaken(t *testing.T) {
	t.Parallel()
	large, small := newPod("large", labeled("train"), uses("large")), newPod("small", uses("s"))
	inBooking(t, append(holder("a", "n2", "gpu-0"), append(holder("b", "n2", "gpu-1"), large)...), func(t *testing.T, f *fixture) {
		f.book(deviceBooking("b", 0, 2))
		a := f.mustBegin(large).filter()
		require.True(t, a.reserve("n1").IsSuccess())
		f.nextPlan()
		require.Len(t, f.pl.state.holds.Holds(), 1)
		a.unreserve("n1")
		require.Equal(t, "held for booking default/b until about 01:00 UTC", f.schedule(small).reasons["n1"])
		require.Equal(t, "n1", f.schedule(large).node)
	})
}

// TestBookingAfterRestart: the first pod that is tried after a restart does not get what is booked.
func TestBookingAfterRestart(t *testing.T) {
	t.Parallel()
	inBooking(t, nil, func(t *testing.T, f *fixture) {
		f = f.restart(func(f *fixture) {
			f.pl.state.bookings.Set([]booking.DeviceBooking{deviceBooking("b", 0, 2)})
		})
		require.Equal(t, "held for booking default/b until about 01:00 UTC", f.schedule(newPod("small", uses("s"))).reasons["n1"])
	})
}

// TestBookingsOfOneNamespace: of many bookings of a namespace, the first ones to start are planned; the others say that they are not, and hold
// up nobody else's.
func TestBookingsOfOneNamespace(t *testing.T) {
	t.Parallel()
	inBooking(t, nil, func(t *testing.T, f *fixture) {
		*f.pl.args.MaxHeldPercent = 100
		var many []booking.DeviceBooking
		for i := range 100 {
			many = append(many, deviceBooking(fmt.Sprintf("b-%02d", i), time.Hour-time.Duration(i)*time.Second, 1, func(b *booking.DeviceBooking) { b.UID = types.UID(b.Name) }))
		}
		f.book(append(many, deviceBooking("b", 2*time.Hour, 1, func(b *booking.DeviceBooking) { b.Namespace, b.UID = "other", "other" }))...)
		var holders []string
		for _, h := range f.pl.state.holds.Holds() {
			holders = append(holders, h.Name)
		}
		require.ElementsMatch(t, []string{"default/b-96", "default/b-97", "other/b"}, holders, "half of four devices for one namespace")
		reasons := make(map[string]int)
		world := f.pl.state.holdWorldOf(f.ctx, time.Now())
		for _, update := range world.updates(world.Plan(world.waiting)) {
			reasons[meta.FindStatusCondition(update.Next.Conditions, "Planned").Reason]++
		}
		require.Equal(t, map[string]int{"Held": 3, "ExceedsLimit": 2, "TooManyBookings": 96}, reasons)
	})
}

// TestBookingOtherWorlds: what usually is not thought of.
func TestBookingOtherWorlds(t *testing.T) {
	t.Parallel()
	full := append(holder("a", "n2", "gpu-0"), holder("b", "n2", "gpu-1")...)
	small := newPod("small", uses("s"))
	for name, test := range map[string]struct {
		after  func(*fixture)
		reason string // of the booking, "" if there is none
		free   bool
	}{
		"deleted meanwhile": {func(f *fixture) { f.book() }, "", true},
		"being deleted": {func(f *fixture) {
			f.book(deviceBooking("b", 0, 2, func(b *booking.DeviceBooking) { b.DeletionTimestamp = &metav1.Time{Time: time.Now()} }))
		}, "", true},
		"class is gone": {func(f *fixture) { f.remove(builder.Class("gpu")) }, "InvalidSpec", false},
		"node is gone": {func(f *fixture) {
			*f.pl.args.MaxHeldPercent, *f.pl.args.MaxHeldPercentPerNamespace = 100, 100
			f.remove(builder.Node("n1"))
			f.gone("a")
			f.gone("b")
		}, "Held", false},
		"node is cordoned": {func(f *fixture) { node := builder.Node("n1"); node.Spec.Unschedulable = true; f.replace(node) }, "HeldLate", true},
		"another namespace's pods": {func(f *fixture) {
			f.book(deviceBooking("b", 0, 2, func(b *booking.DeviceBooking) { b.Namespace, b.Spec.PodSelector = "other", &metav1.LabelSelector{} }))
		}, "Held", false},
	} {
		inBooking(t, full, func(t *testing.T, f *fixture) {
			f.book(deviceBooking("b", 0, 2))
			require.Equal(t, "Held", f.planned().Reason, name)
			test.after(f)
			f.nextPlan()
			f.nextPlan()
			if test.reason != "" {
				require.Equal(t, test.reason, f.planned().Reason, name)
			}
			require.Equal(t, test.free, f.schedule(small).phase == "", name)
		})
	}
}
