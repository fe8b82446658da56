package quartermaster

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/hold/booking"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// highClass makes a booking one of priority 10.
func highClass(b *booking.DeviceBooking) { b.Spec.PriorityClassName = "high" }

// holdsFor returns the nodes of the holds by the names of the holders.
func (f *fixture) holdsFor() map[string][]string {
	nodes := make(map[string][]string)
	for _, h := range f.pl.state.holds.Holds() {
		nodes[h.Name] = h.NodeNames()
	}
	return nodes
}

// TestNobodyIsEvictedForBookedDevices: a pod evicts no pod whose devices would then be held for a booking from it. If the booking has a lower
// priority, it does, and gets the devices.
func TestNobodyIsEvictedForBookedDevices(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		edit   func(*booking.DeviceBooking)
		evicts bool
	}{"lower booking": {func(*booking.DeviceBooking) {}, true}, "higher booking": {highClass, false}} {
		pod := newPod("p", uses("s"), priority(5))
		objects := plus(gpuNodes(1, "n1"), append(holder("a", "n1", "gpu-0", labeled("train"), priority(0)), gpus("s", 1).Obj(), pod)...)
		inHolding(t, objects, func(t *testing.T, f *fixture) {
			*f.pl.args.MaxHeldPercent, *f.pl.args.MaxHeldPercentPerNamespace = 100, 100
			profile := withDefaultPreemption(f)
			require.Empty(t, f.schedule(newPod("without")).phase)
			f.book(deviceBooking("b", -time.Minute, 1, test.edit))
			require.Len(t, f.pl.state.holds.Holds(), 1)
			p := preemptIn(t, f, profile, pod)
			require.Equal(t, test.evicts, p.node != "", name)
			if p.node == "" {
				return
			}
			f.settle()
			if f.claim("a") != nil {
				f.remove(f.claim("a"))
			}
			f.settle()
			now := pod.DeepCopy()
			now.Status.NominatedNodeName = p.node
			require.NotEmpty(t, f.mustBegin(now).filter().feasible)
		})
	}
}

// TestBookingEditWakes: a waiting pod for which a booking is, or which it does not bind any more, is woken.
func TestBookingEditWakes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		edit  func(*booking.DeviceBooking)
		class int32
		fits  bool
	}{
		"nothing": {func(b *booking.DeviceBooking) {}, 10, false},
		"selector": {func(b *booking.DeviceBooking) {
			b.Spec.PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "small"}}
			b.Generation++
		}, 10, true},
		"no class":       {func(b *booking.DeviceBooking) { b.Spec.PriorityClassName = ""; b.Generation++ }, 10, true},
		"PriorityClass":  {func(b *booking.DeviceBooking) {}, 1, true},
		"a day later":    {func(b *booking.DeviceBooking) { b.Spec.Start.Time = b.Spec.Start.Add(24 * time.Hour); b.Generation++ }, 10, true},
		"a shorter time": {func(b *booking.DeviceBooking) { b.Spec.Duration.Duration = time.Second; b.Generation++ }, 10, true},
	} {
		small := newPod("small", labeled("small"), uses("s"), priority(5), deadline(time.Hour))
		inBooking(t, append(holder("a", "n2", "gpu-0", priority(20)), append(holder("b", "n2", "gpu-1", priority(20)), small)...), func(t *testing.T, f *fixture) {
			f.book(deviceBooking("b", 0, 2, highClass))
			f.sleep(small)
			f.pl.state.bookings.Set([]booking.DeviceBooking{deviceBooking("b", 0, 2, highClass, test.edit)},
				&schedulingapi.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: test.class})
			f.nextPlan()
			require.Equal(t, test.fits, slices.Contains(f.names(), "default/small"), name)
			require.Equal(t, test.fits, f.fits(small), name)
		})
	}
}

// TestPodEditWakes: a pod that waits beside a hold is tried again when its own labels or deadline change, and not for other changes.
func TestPodEditWakes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		edit func(*v1.Pod)
		fits bool
	}{
		"label":      {labeled("train"), true},
		"deadline":   {deadline(time.Minute), true},
		"annotation": {func(pod *v1.Pod) { pod.Annotations = map[string]string{"a": "b"} }, false},
	} {
		small := newPod("small", labeled("small"), uses("s"), priority(5), deadline(time.Hour*9))
		inBooking(t, append(holder("a", "n2", "gpu-0", priority(20)), append(holder("b", "n2", "gpu-1", priority(20)), small)...), func(t *testing.T, f *fixture) {
			f.book(deviceBooking("b", 2*time.Hour, 2, highClass))
			f.sleep(small)
			edited := f.pod("small").DeepCopy()
			test.edit(edited)
			f.replace(edited)
			f.settle()
			require.Equal(t, test.fits, slices.Contains(f.names(), "default/small"), name)
			require.Equal(t, test.fits, f.fits(edited), name)
		})
	}
}

// TestBookingLeavesHigherPriorityItsHold: a pod of higher priority keeps its hold on devices that pods of a booking use.
func TestBookingLeavesHigherPriorityItsHold(t *testing.T) {
	t.Parallel()
	for _, start := range []time.Duration{-time.Minute, 30 * 24 * time.Hour} {
		objects := append(gpuNodes(2, "n1"), holder("a", "n1", "gpu-0", labeled("train"), priority(5))...)
		objects = append(objects, holder("b", "n1", "gpu-1", labeled("train"), priority(5))...)
		objects = append(objects, newPod("large", of("default"), uses("large"), waitsFor(time.Hour), priority(5)), gpus("large", 2).Obj(), gpus("s", 1).Obj())
		inHolding(t, objects, func(t *testing.T, f *fixture) {
			*f.pl.args.MaxHeldPercent, *f.pl.args.MaxHeldPercentPerNamespace = 100, 100
			require.NotEmpty(t, f.schedule(newPod("small", uses("s"))).phase)
			f.book(deviceBooking("b", start, 1, func(b *booking.DeviceBooking) { b.Spec.Count = 2 }))
			require.Contains(t, f.holdsFor(), "default/large")
		})
	}
}

// TestBookingUsesTheNodesOfItsPods: devices are held where the waiting pods of a booking can be. A pod that cannot use what is held gets a hold
// as others do.
func TestBookingUsesTheNodesOfItsPods(t *testing.T) {
	t.Parallel()
	tolerates := func(pod *v1.Pod) { pod.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}} }
	for name, test := range map[string]struct {
		edit        func(*v1.Pod)
		gpus        int64
		inUse       []runtime.Object
		booking, of []string
	}{
		"tolerates nothing": {edit: func(*v1.Pod) {}, gpus: 2, booking: []string{"n2"}},
		"tolerates":         {edit: tolerates, gpus: 2, booking: []string{"n1"}},
		"needs more":        {edit: tolerates, gpus: 1, inUse: holder("e", "n1", "gpu-0", deadline(time.Hour)), booking: []string{"n1"}, of: []string{"n2"}},
	} {
		objects := append(gpuNodes(2, "n1", "n2"), newPod("wants", test.edit, labeled("train"), of("default"), uses("large"), waitsFor(time.Hour)))
		objects = append(objects, test.inUse...)
		for _, o := range objects {
			if n, ok := o.(*v1.Node); ok {
				n.Status.Allocatable = builder.Resources("pods", "110")
				if n.Name == "n1" {
					n.Spec.Taints = []v1.Taint{{Key: "team", Value: "b", Effect: v1.TaintEffectNoSchedule}}
				}
			}
		}
		objects = plus(append(objects, holder("d", "n2", "gpu-0", deadline(2*time.Hour))...), gpus("large", 2).Obj(), gpus("all", 9).Obj())
		inHolding(t, objects, func(t *testing.T, f *fixture) {
			*f.pl.args.MaxHeldPercent, *f.pl.args.MaxHeldPercentPerNamespace = 100, 100
			require.NotEmpty(t, f.schedule(newPod("all", uses("all"))).phase) // From now on, the room on nodes is known.
			f.book(deviceBooking("b", -time.Minute, test.gpus, highClass))
			f.nextPlan()
			require.Equal(t, test.booking, f.holdsFor()["default/b"], name)
			require.Equal(t, test.of, f.holdsFor()["default/wants"], name)
		})
	}
}

// TestBookingMoreThanTheLimit: what pods of a booking have is not held beyond the limits, and not before the start.
func TestBookingMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	for start, want := range map[time.Duration]struct {
		held   int
		reason string
	}{20 * 365 * 24 * time.Hour: {1, "HeldLate"}, -time.Minute: {2, "ExceedsLimit"}} {
		objects := append(gpuNodes(2, "n1", "n2"), holder("d", "n2", "gpu-1")...)
		for name, on := range map[string][]string{"a": {"n1", "gpu-0"}, "b": {"n1", "gpu-1"}, "c": {"n2", "gpu-0"}} {
			objects = append(objects, holder(name, on[0], on[1], labeled("train"))...)
		}
		inHolding(t, objects, func(t *testing.T, f *fixture) {
			require.Empty(t, f.schedule(newPod("without")).phase)
			f.book(deviceBooking("b", start, 1, func(b *booking.DeviceBooking) { b.Spec.Count = 4 }))
			n := 0
			for _, h := range f.pl.state.holds.Holds() {
				n += len(h.InUse) + len(h.Uses)
			}
			require.Equal(t, want.held, n, "50%% of 4 devices; planned: %v", f.planned())
			require.Equal(t, want.reason, f.planned().Reason)
		})
	}
}

// TestBookingCountsWholeCopies: pods have a copy of a booking if they have as many devices as a copy on one node.
func TestBookingCountsWholeCopies(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		nodes  [2]string
		copies int
	}{"one node": {[2]string{"n1", "n1"}, 1}, "two nodes": {[2]string{"n1", "n2"}, 0}} {
		a := holder("a", test.nodes[0], "gpu-0", labeled("train"))
		inBooking(t, append(a, holder("b", test.nodes[1], "gpu-1", labeled("train"))...), func(t *testing.T, f *fixture) {
			f.book(deviceBooking("b", -time.Minute, 2))
			world := f.pl.state.holdWorldOf(f.ctx, time.Now())
			copies, uses := world.inUse(world.considered["uid-booking"])
			require.Equal(t, test.copies, copies, name)
			require.Len(t, uses, 2*test.copies, name)
		})
	}
}

// TestBookingHorizon: devices are held for a repeated booking from a day before its start on, and for another one at once.
func TestBookingHorizon(t *testing.T) {
	t.Parallel()
	repeats := func(b *booking.DeviceBooking) { b.Spec.Schedule = "30 1 * * *" }
	inBooking(t, nil, func(t *testing.T, f *fixture) {
		f.book(deviceBooking("b", 48*time.Hour, 2, repeats))
		require.Equal(t, "NotYet", f.planned().Reason)
		require.Equal(t, metav1.ConditionUnknown, f.planned().Status)
		require.Empty(t, f.holdsFor())
		f.book(deviceBooking("b", 20*time.Hour, 2, repeats))
		require.Equal(t, "NotYet", f.planned().Reason, "the first time is in 25.5 hours")
		f.book(deviceBooking("b", time.Hour, 2, repeats))
		require.Equal(t, "Held", f.planned().Reason)
		f.book(deviceBooking("b", 48*time.Hour, 2))
		require.Equal(t, "Held", f.planned().Reason)
		require.Equal(t, "held for booking default/b until about 2000-01-03 01:00 UTC", f.schedule(newPod("large", uses("large"))).reasons["n1"])
	})
}

// TestBookingsTakeTurns: however many namespaces book what there is not, a plan looks for the devices of some of them only, of all in turn. Those
// that have devices keep them.
func TestBookingsTakeTurns(t *testing.T) {
	t.Parallel()
	inBooking(t, nil, func(t *testing.T, f *fixture) {
		all := []booking.DeviceBooking{deviceBooking("b", time.Hour, 2)}
		for i := range 100 {
			all = append(all, deviceBooking("b", time.Hour, 32, func(b *booking.DeviceBooking) {
				b.Namespace, b.UID = fmt.Sprint("n", i), types.UID(fmt.Sprint("n", i))
			}))
		}
		f.book(all...)
		for range 3 {
			f.nextPlan()
		}
		require.Contains(t, f.holdsFor(), "default/b")
		seen := make(map[types.UID]bool)
		for range 4 {
			world := f.pl.state.holdWorldOf(f.ctx, time.Now())
			require.Len(t, world.considered, turnsPerHold*8)
			require.Contains(t, world.considered, types.UID("uid-booking"))
			for uid := range world.considered {
				seen[uid] = true
			}
			require.Len(t, world.updates(world.Plan(world.waiting)), turnsPerHold*8, "of others nothing is known")
		}
		require.Len(t, seen, 101)
	})
}

// TestBookingsBeyondTheNumberSettle: bookings beyond the number of those that are planned, or beyond the quota, write no status when their next time
// begins.
func TestBookingsBeyondTheNumberSettle(t *testing.T) {
	t.Parallel()
	for quota, want := range map[string]int{
		"99": 4, // half of eight bookings for one namespace
		"2":  2,
	} {
		inBooking(t, nil, func(t *testing.T, f *fixture) { beyondTheNumber(t, f, quota, want) })
	}
}

func beyondTheNumber(t *testing.T, f *fixture, quota string, want int) {
	t.Helper()
	limit := &v1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: builder.Namespace, Name: "q"},
		Spec:       v1.ResourceQuotaSpec{Hard: v1.ResourceList{v1.ResourceName("gpu" + v1.ResourceClaimsPerClass): resource.MustParse(quota)}},
	}
	book := func(all []booking.DeviceBooking) {
		f.pl.state.bookings.Set(all, limit)
		f.nextPlan()
	}
	var all []booking.DeviceBooking
	for i := range 9 {
		all = append(all, deviceBooking(fmt.Sprint("b", i), 0, 1, func(b *booking.DeviceBooking) {
			b.Spec.Schedule, b.Spec.Duration.Duration, b.UID = "* * * * *", time.Second, types.UID(fmt.Sprint(i))
		}))
	}
	book(all)
	turns := make(map[string]int)
	for range 2 {
		world := f.pl.state.holdWorldOf(f.ctx, time.Now())
		turns = make(map[string]int)
		for _, update := range world.updates(world.Plan(world.waiting)) {
			i := slices.IndexFunc(all, func(b booking.DeviceBooking) bool { return b.Name == update.Name })
			all[i].Status = update.Next
			turns[update.Name] = update.Turn
		}
		book(all)
		time.Sleep(time.Minute)
	}
	require.Len(t, turns, want)
	for _, turn := range turns {
		require.Zero(t, turn)
	}
}

// TestBookingsNotKnownTakeNoTime: the wait for bookings that do not get known counts not as planning, which has to pause for long then.
func TestBookingsNotKnownTakeNoTime(t *testing.T) {
	t.Parallel()
	objects, _ := besideLarge(4*time.Minute + 50*time.Second)
	inHoldingWith(t, objects, func(args *QuartermasterArgs) { args.HoldAfter.Duration = 5 * time.Minute }, func(t *testing.T, f *fixture) {
		f.pl.state.bookings = new(booking.Bookings)
		f.pl.state.Free.Follow(f.nodeInfos(), false)
		time.Sleep(8 * time.Second) // The first plan waits for them.
		require.Empty(t, f.schedule(newPod("without")).phase)
		require.Equal(t, bubbleBegins.Add(8*time.Second), time.Now().UTC(), "nobody else does")
		require.Empty(t, f.holdsFor())
		time.Sleep(4 * time.Second)
		require.Contains(t, f.holdsFor(), "default/large")
	})
}

// TestBookingOdd: no object makes a plan panic.
func TestBookingOdd(t *testing.T) {
	t.Parallel()
	text := func(s string) *resourceapi.FullyQualifiedName { n := resourceapi.FullyQualifiedName(s); return &n }
	constraint := func(c resourceapi.DeviceConstraint) func(*booking.DeviceBooking) {
		return func(b *booking.DeviceBooking) { b.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{c} }
	}
	request := func(edit func(*resourceapi.ExactDeviceRequest)) func(*booking.DeviceBooking) {
		return func(b *booking.DeviceBooking) { edit(b.Spec.Devices.Requests[0].Exactly) }
	}
	for name, edit := range map[string]func(*booking.DeviceBooking){
		"attribute":    constraint(resourceapi.DeviceConstraint{MatchAttribute: text("foo")}),
		"slash":        constraint(resourceapi.DeviceConstraint{DistinctAttribute: text("/")}),
		"unknown":      constraint(resourceapi.DeviceConstraint{Requests: []string{"x"}, MatchAttribute: text("a/b")}),
		"no attribute": constraint(resourceapi.DeviceConstraint{}),
		"no kind":      func(b *booking.DeviceBooking) { b.Spec.Devices.Requests[0].Exactly = nil },
		"no cel":       request(func(r *resourceapi.ExactDeviceRequest) { r.Selectors = []resourceapi.DeviceSelector{{}} }),
		"count 0":      request(func(r *resourceapi.ExactDeviceRequest) { r.Count = 0 }),
		"count -1":     request(func(r *resourceapi.ExactDeviceRequest) { r.Count = -1 }),
		"count max":    request(func(r *resourceapi.ExactDeviceRequest) { r.Count = math.MaxInt64 }),
		"mode":         request(func(r *resourceapi.ExactDeviceRequest) { r.AllocationMode = "x" }),
		"two of a name": func(b *booking.DeviceBooking) {
			b.Spec.Devices.Requests = append(b.Spec.Devices.Requests, b.Spec.Devices.Requests[0])
		},
		"capacity": request(func(r *resourceapi.ExactDeviceRequest) {
			r.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"x": resource.MustParse("-1")}}
		}),
		"all": func(b *booking.DeviceBooking) {
			b.Spec.Devices.Requests[0].Exactly.AllocationMode, b.Spec.Count = "All", 64
		},
	} {
		var inUse []runtime.Object
		if len(name)%2 == 0 {
			inUse = holder("a", "n1", "gpu-0", labeled("train"))
		}
		inBooking(t, inUse, func(t *testing.T, f *fixture) {
			f.book(deviceBooking("b", -time.Minute, 1, edit))
			require.NotEmpty(t, f.planned().Type, name)
			require.NotEmpty(t, f.schedule(newPod("other", of(builder.Namespace), uses("none"))).phase)
		})
	}
}
