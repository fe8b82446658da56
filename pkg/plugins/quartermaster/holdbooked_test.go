package quartermaster

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/hold"
	"github.com/quartermaster-dra/quartermaster/internal/hold/booking"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestBookingOfPodsWithoutDevices: a waiting pod that needs no devices does not decide on which nodes they are held.
func TestBookingOfPodsWithoutDevices(t *testing.T) {
	t.Parallel()
	launcher := newPod("launcher", labeled("train"), func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{"kind": "cpu"} })
	inBooking(t, []runtime.Object{launcher}, func(t *testing.T, f *fixture) {
		f.book(deviceBooking("b", -time.Minute, 2))
		require.Equal(t, "Held", f.planned().Reason)
		require.Contains(t, f.holdsFor(), "default/b")
	})
}

// TestBookingIsNotEnough: a pod gets a hold although devices are free for it on a node of its booking, if others hold some that it would need.
func TestBookingIsNotEnough(t *testing.T) {
	t.Parallel()
	objects := append(gpuNodes(2, "n1", "n2"), newPod("wants", labeled("train"), of("default"), uses("large"), waitsFor(time.Hour)))
	for _, o := range objects {
		if n, ok := o.(*v1.Node); ok {
			n.Status.Allocatable = builder.Resources("pods", "110")
		}
	}
	objects = append(objects, holder("d", "n2", "gpu-0", deadline(2*time.Hour))...)
	objects = plus(append(objects, holder("e", "n2", "gpu-1", deadline(2*time.Hour))...), gpus("large", 2).Obj(), gpus("all", 9).Obj())
	inHolding(t, objects, func(t *testing.T, f *fixture) {
		*f.pl.args.MaxHeldPercent, *f.pl.args.MaxHeldPercentPerNamespace = 100, 100
		require.NotEmpty(t, f.schedule(newPod("all", uses("all"))).phase)
		f.book(deviceBooking("b", -time.Minute, 1, highClass), deviceBooking("b", -time.Minute, 1, highClass, func(b *booking.DeviceBooking) {
			b.Namespace, b.UID = "other", "other"
		}))
		f.nextPlan()
		require.Equal(t, map[string][]string{"default/b": {"n1"}, "other/b": {"n1"}, "default/wants": {"n2"}}, f.holdsFor())
	})
}

// TestBookingIsNotEnoughForAll: pods of a group need a hold unless a booking has devices for all of them, however many they are.
func TestBookingIsNotEnoughForAll(t *testing.T) {
	t.Parallel()
	var objects []runtime.Object
	for i := range 20 {
		objects = append(objects, gpus(fmt.Sprint("c", i), 1).Obj(), gpus(fmt.Sprint("l", i), 2).Obj())
	}
	inBooking(t, objects, func(t *testing.T, f *fixture) {
		f.book(deviceBooking("b", -time.Minute, 2))
		for name, test := range map[string]struct {
			claims string
			pods   int
			want   bool
		}{"one": {"c", 1, true}, "two": {"c", 2, true}, "three": {"c", 3, false}, "many": {"c", 20, false}, "large": {"l", 1, true}, "two large": {"l", 2, false}} {
			world := f.pl.state.holdWorldOf(f.ctx, time.Now())
			var pods []*v1.Pod
			var needs []*hold.Pod
			for i := range test.pods {
				pod := newPod(fmt.Sprint("p", i), labeled("train"), uses(fmt.Sprint(test.claims, i)))
				found, ok := world.pod(f.pl, pod, make(map[types.UID]bool))
				require.True(t, ok)
				pods, needs = append(pods, pod), append(needs, found)
			}
			require.Equal(t, test.want, world.haveBooking(pods, needs), name)
		}
	})
}

// TestBookingsTakeTurnsAfterRestart: the first plan after a restart has the bookings that had devices, however many others there are.
func TestBookingsTakeTurnsAfterRestart(t *testing.T) {
	t.Parallel()
	inBooking(t, nil, func(t *testing.T, f *fixture) {
		had := deviceBooking("b", time.Hour, 2)
		had.Status.Conditions = []metav1.Condition{{Type: "Planned", Status: metav1.ConditionTrue, Reason: "Held"}}
		all := []booking.DeviceBooking{had}
		for i := range 100 {
			all = append(all, deviceBooking("b", time.Hour, 32, func(b *booking.DeviceBooking) {
				b.Namespace, b.UID = fmt.Sprint("n", i), types.UID(fmt.Sprint("n", i))
			}))
		}
		f = f.restart(func(f *fixture) { f.pl.state.bookings.Set(all) })
		require.Contains(t, f.schedule(newPod("small", uses("s"))).reasons["n1"], "held for booking default/b")
	})
}

// TestNoPlansWithoutBookings: where nothing is held for those that wait, there are plans only while there are bookings.
func TestNoPlansWithoutBookings(t *testing.T) {
	t.Parallel()
	inBooking(t, nil, func(t *testing.T, f *fixture) {
		f.pl.args.HoldAfter.Duration = 0
		require.False(t, f.pl.state.mayHold())
		f.book(deviceBooking("b", time.Hour, 2))
		require.Contains(t, f.holdsFor(), "default/b")
		f.book()
		require.Empty(t, f.holdsFor())
		require.False(t, f.pl.state.mayHold())
	})
}

// TestBookingPodEndsBeforeTheStart: when a pod of a booking ends before its start, others without a deadline do not get its devices.
func TestBookingPodEndsBeforeTheStart(t *testing.T) {
	t.Parallel()
	own := append(holder("c", "n1", "gpu-0", labeled("train")), append(holder("a", "n2", "gpu-0"), holder("b", "n2", "gpu-1")...)...)
	inBooking(t, append(own, holder("d", "n1", "gpu-1")...), func(t *testing.T, f *fixture) {
		f.book(deviceBooking("b", time.Hour, 1))
		require.Equal(t, "InUse", f.planned().Reason)
		require.NotEmpty(t, f.schedule(newPod("long", uses("s"))).phase)
		f.gone("c")
		require.NotEmpty(t, f.schedule(newPod("long", uses("s"))).phase, "it gets the device")
		f.nextPlan()
		require.Equal(t, "Held", f.planned().Reason)
	})
}

// TestHeldFrom: a guard keeps held devices from other schedulers if the holder wants that, unless the claim is for pods that may use them.
func TestHeldFrom(t *testing.T) {
	t.Parallel()
	reservation := func(pod *v1.Pod) resourceapi.ResourceClaimConsumerReference {
		return resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID}
	}
	asks := func(f *fixture, device string, consumers ...resourceapi.ResourceClaimConsumerReference) string {
		claim := gpus("s", 1).Obj()
		allocate("n1", device)(claim)
		return f.pl.state.HeldFrom(ledger.RefTo(claim), claim.Status.Allocation, consumers)
	}
	namespace := func(label string) *v1.Namespace {
		return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{hold.GuardLabel: label}}}
	}
	for _, label := range []string{"true", "false"} {
		objects, large := besideLarge(5 * time.Minute)
		same, higher := newPod("same", uses("s")), newPod("higher", uses("s"), priority(1))
		group := resourceapi.ResourceClaimConsumerReference{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "g"}
		inHolding(t, append(objects, same, higher, namespace(label)), func(t *testing.T, f *fixture) {
			require.Empty(t, asks(f, "gpu-1"))
			require.NotEmpty(t, f.schedule(newPod("small", uses("t"))).phase)
			reason := ""
			if label == "true" {
				reason = "claim default/s was to get devices that are held for pod default/large, in a namespace where label " +
					"quartermaster-dra.github.io/guard-holds keeps them from other schedulers; allocate other devices, or wait"
			}
			for _, consumers := range [][]resourceapi.ResourceClaimConsumerReference{
				nil, {reservation(same)}, {reservation(higher), reservation(same)}, {group}, {{Resource: "pods", Name: "same", UID: "another"}}, {{Resource: "pods", Name: "unknown"}},
			} {
				require.Equal(t, reason, asks(f, "gpu-1", consumers...))
			}
			require.Empty(t, asks(f, "gpu-1", reservation(higher)))
			require.Empty(t, asks(f, "gpu-1", reservation(large)))
			itself := f.claim("large").DeepCopy()
			allocate("n1", "gpu-0", "gpu-1")(itself)
			require.Empty(t, f.pl.state.HeldFrom(ledger.RefTo(itself), itself.Status.Allocation, []resourceapi.ResourceClaimConsumerReference{reservation(same)}),
				"the claim that they are held for may be allocated for another pod that shares it")
		})
	}
	objects := append(holder("a", "n2", "gpu-0"), holder("b", "n2", "gpu-1")...)
	inBooking(t, append(objects, newPod("same", uses("s")), namespace("true")), func(t *testing.T, f *fixture) {
		f.book(deviceBooking("b", time.Hour, 2))
		require.NotEmpty(t, f.schedule(newPod("small", uses("t"))).phase)
		require.Contains(t, asks(f, "gpu-1"), "held for booking default/b until about")
	})
}

// TestHoldSharedClaim: a pod that must leave held devices alone does not get them by way of a claim that another pod has which may use
// them, and is woken when the hold ends. A claim that a pod has which must leave them alone as well can be shared: it was there before.
func TestHoldSharedClaim(t *testing.T) {
	t.Parallel()
	long := newPod("long", uses("s"))
	refuses := func(f *fixture, first *v1.Pod, by string) {
		f.create(first)
		result := f.schedule(first)
		require.Equal(t, "n1", result.node, result.status)
		result = f.schedule(long)
		require.Equal(t, "PreFilter", result.phase)
		require.Contains(t, result.status.Message(), "the devices of claim s are held for "+by)
	}
	inBooking(t, append(holder("a", "n2", "gpu-0"), holder("b", "n2", "gpu-1")...), func(t *testing.T, f *fixture) {
		f.book(deviceBooking("b", time.Hour, 2))
		refuses(f, newPod("short", uses("s"), deadline(time.Minute)), "booking default/b")
	})
	inBooking(t, append(holder("own", "n1", "gpu-0", labeled("train")), append(holder("a", "n2", "gpu-0"), holder("b", "n2", "gpu-1")...)...), func(t *testing.T, f *fixture) {
		f.book(deviceBooking("b", -time.Minute, 1))
		require.Equal(t, "InUse", f.planned().Reason)
		result := f.schedule(newPod("joins", uses("own")))
		require.Contains(t, result.status.Message(), "the devices of claim own are held for booking default/b", "it would have them when the booking's pod has ended")
	})
	objects, _ := besideLarge(5 * time.Minute)
	inHolding(t, append(objects, long), func(t *testing.T, f *fixture) {
		require.NotEmpty(t, f.schedule(newPod("small", uses("t"))).phase)
		refuses(f, newPod("short", uses("s"), priority(-1)), "pod default/large")
		f.sleep(long)
		f.gone("large")
		time.Sleep(conflictInterval)
		f.settle()
		require.Contains(t, f.names(), "default/long")
		require.True(t, f.fits(long))
	})
	inHolding(t, objects, func(t *testing.T, f *fixture) {
		require.NotEmpty(t, f.schedule(newPod("small", uses("t"))).phase)
		require.Equal(t, "n1", f.schedule(newPod("joins", uses("a"))).node, "pod a has run there for longer than the hold is there")
	})
}
