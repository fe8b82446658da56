package coordinator

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// TestDisturbed: whatever happens to a gang while it is scheduled, all its pods run in the end, within a limit. Then
// nothing is kept for it any more, and none of its pods was tried over and over.
func TestDisturbed(t *testing.T) {
	t.Parallel()
	failTimes := func(name string, times int32) func(*v1.Pod) error {
		var n atomic.Int32
		return func(pod *v1.Pod) error {
			if pod.Name == name && n.Add(1) <= times {
				return errHere
			}
			return nil
		}
	}
	// replace deletes a pod of the gang and creates another one.
	replace := func(w *world, name string) {
		w.delete(name)
		time.Sleep(100 * time.Millisecond)
		w.pods("gang", 9, 1)
	}
	// slow delays PreBind of one pod by a second.
	slow := func(w *world) {
		w.atPreBind = func(pod *v1.Pod) error {
			if pod.Name == "gang-1" {
				time.Sleep(time.Second)
			}
			return nil
		}
	}
	for name, test := range map[string]struct {
		// before runs before there are pods, and after runs once the pods are being tried.
		before, after func(w *world)
		within        time.Duration
		bound         int
	}{
		"by nothing":                               {within: time.Second},
		"a pod is rejected by a filter":            {before: func(w *world) { w.atFilter = failTimes("gang-2", 1) }, within: 4 * time.Second},
		"an error ends attempts before they begin": {before: func(w *world) { w.atPreFilter = failTimes("gang-2", 2) }, within: 5 * time.Second},
		"an attempt ends after it began with an assignment, again and again": {
			before: func(w *world) {
				fails := failTimes("gang-2", 6)
				w.atPreFilter = func(pod *v1.Pod) error {
					if w.progress.Of(pod.UID) == nil {
						return nil
					}
					if err := fails(pod); err != nil {
						w.progress.Try(w.progress.Of(pod.UID)) // As if Filter had an error.
						return err
					}
					return nil
				}
			},
			within: 25 * time.Second,
		},
		"claims of a pod cannot be written":         {before: func(w *world) { w.atPreBind = failTimes("gang-0", 1) }, within: 4 * time.Second},
		"claims of a pod cannot be written, thrice": {before: func(w *world) { w.atPreBind = failTimes("gang-0", 3) }, within: 15 * time.Second},
		"a pod cannot be bound":                     {before: func(w *world) { w.atBind = failTimes("gang-1", 2) }, within: 8 * time.Second},
		"undoing takes long": {
			before: func(w *world) {
				fails := failTimes("gang-0", 1)
				w.atPreBind = func(pod *v1.Pod) error {
					if pod.Name == "gang-1" {
						time.Sleep(5 * time.Second)
					}
					return fails(pod)
				}
			},
			within: 20 * time.Second,
		},
		"a pod that waits in Permit is deleted": {
			before: func(w *world) { w.atFilter = func(*v1.Pod) error { time.Sleep(20 * time.Millisecond); return nil } },
			after:  func(w *world) { replace(w, "gang-0") }, within: 4 * time.Second,
		},
		"a pod that is not tried yet is deleted": {
			before: func(w *world) { w.atFilter = func(*v1.Pod) error { time.Sleep(20 * time.Millisecond); return nil } },
			after:  func(w *world) { replace(w, "gang-3") }, within: 4 * time.Second,
		},
		"a pod in PreBind is deleted":                       {before: slow, after: func(w *world) { replace(w, "gang-1") }, within: 5 * time.Second},
		"a pod that waits for PreBind of others is deleted": {before: slow, after: func(w *world) { replace(w, "gang-2") }, within: 5 * time.Second},
		"a pod loses its label": {
			before: slow,
			after: func(w *world) {
				w.update("gang-2", func(pod *v1.Pod) { pod.Labels = nil })
				w.pods("gang", 9, 1)
			}, within: 5 * time.Second,
		},
		"a pod changes to a group that does not exist": {
			before: slow,
			after: func(w *world) {
				w.update("gang-2", func(pod *v1.Pod) { pod.Labels = map[string]string{v1alpha1.PodGroupLabel: "other"} })
				w.pods("gang", 9, 1)
			}, within: 5 * time.Second,
		},
		"minMember grows": {
			before: slow,
			after:  func(w *world) { w.group("gang", 6); time.Sleep(time.Second); w.pods("gang", 4, 2) }, within: 6 * time.Second, bound: 6,
		},
		"minMember shrinks": {before: slow, after: func(w *world) { w.group("gang", 1) }, within: 5 * time.Second},
		"the PodGroup is deleted and made again": {
			before: slow,
			after: func(w *world) {
				w.deleteGroup("gang")
				time.Sleep(3 * time.Second)
				require.Zero(w, w.bound("gang"))
				w.group("gang", 4, func(group *v1alpha1.PodGroup) { group.UID = "another" })
			}, within: 8 * time.Second,
		},
		"somebody else binds a pod that is planned": {
			before: func(w *world) { w.atFilter = func(*v1.Pod) error { time.Sleep(20 * time.Millisecond); return nil } },
			after: func(w *world) {
				w.queue.remove(w.pod("gang-3"))
				w.update("gang-3", func(pod *v1.Pod) { pod.Spec.NodeName = "elsewhere" })
			}, within: 4 * time.Second,
		},
		"pods depend on the last one": {
			before: func(w *world) {
				w.pods("gang", 9, 1, func(pod *v1.Pod) { pod.Annotations = map[string]string{"after": "gang-0"} })
				w.group("gang", 5)
			}, within: time.Second, bound: 5,
		},
		"what a pod depends on leaves": {
			before: func(w *world) {
				w.pods("gang", 9, 1, func(pod *v1.Pod) { pod.Annotations = map[string]string{"after": "gang-0"} })
				w.atFilter = failTimes("gang-0", 1)
			}, within: 8 * time.Second, bound: 5,
		},
		"one more than is needed does not fit after all": {
			before: func(w *world) { w.pods("gang", 4, 1); w.atPreFilter = failTimes("gang-4", 100) },
			after: func(w *world) {
				time.Sleep(3 * time.Second)
				w.delete("gang-4")
			}, within: 5 * time.Second,
		},
		"the informer lags behind": {
			before: func(w *world) { w.lag = 2 * time.Second },
			after:  func(w *world) { time.Sleep(time.Second); w.pods("gang", 4, 3) }, within: 6 * time.Second, bound: 7,
		},
		"more pods come one after the other": {
			after: func(w *world) {
				for i := range 3 {
					w.pods("gang", 4+i, 1)
					time.Sleep(3 * time.Millisecond)
				}
			}, within: 3 * time.Second, bound: 7,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 8, func(w *world) {
				w.group("gang", 4)
				if test.before != nil {
					test.before(w)
				}
				w.pods("gang", 0, 4)
				begun := time.Now()
				if test.after != nil {
					time.Sleep(30 * time.Millisecond)
					test.after(w)
				}
				bound := max(test.bound, 4)
				w.requireBound("gang", bound, test.within-time.Since(begun))
			})
		})
	}
}

// requireBound waits until so many pods of a group are bound, and requires that it is exactly that number.
func (w *world) requireBound(group string, n int, within time.Duration) {
	w.Helper()
	for end := time.Now().Add(within); w.bound(group) < n; time.Sleep(10 * time.Millisecond) {
		require.False(w, time.Now().After(end), "%d of %d pods are bound after %s; waiting: %v", w.bound(group), n, within, w.unbound())
	}
	require.Equal(w, n, w.bound(group))
	for _, pod := range w.podsOf("ns/" + group) {
		require.LessOrEqual(w, w.attempts(pod.Name), 25, pod.Name)
	}
}

// TestWaitsQuietly: a gang that cannot run for the moment is not tried over and over, and runs when it can.
func TestWaitsQuietly(t *testing.T) {
	t.Parallel()
	gated := func(pod *v1.Pod) { pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "gate"}} }
	for name, test := range map[string]struct {
		devices       int
		before, after func(w *world)
		reason        string
		tried         int
	}{
		"without PodGroup": {
			8, func(w *world) { w.pods("gang", 0, 4); w.StirAll(); w.Stir("ns/gang") },
			func(w *world) { w.group("gang", 4) }, "there is none of that name", 400, // Each looks again from time to time.
		},
		"too few pods": {
			8, func(w *world) { w.group("gang", 4); w.pods("gang", 0, 3); w.StirAll() },
			func(w *world) { w.pods("gang", 3, 1) }, "3 of 4 pods exist", 20,
		},
		"a pod has a gate": {
			8, func(w *world) { w.group("gang", 4); w.pods("gang", 0, 3); w.pods("gang", 3, 1, gated); w.StirAll() },
			func(w *world) {
				w.update("gang-3", func(pod *v1.Pod) { pod.Spec.SchedulingGates = nil })
				w.queue.add(w.pod("gang-3"))
			}, "pod gang-3 has the scheduling gate gate", 20,
		},
		"no devices": {
			3, func(w *world) { w.group("gang", 4); w.pods("gang", 0, 4); w.StirAll() },
			func(w *world) { w.has(4); w.WakeForDevices(nil) }, "3 of 4 pods fit", 20,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, test.devices, func(w *world) {
				test.before(w)
				time.Sleep(10 * time.Minute)
				require.Zero(w, w.bound("gang"))
				require.Contains(w, w.reason("gang"), test.reason)
				for _, pod := range w.unbound() {
					require.LessOrEqual(w, w.attempts(pod), test.tried, pod)
				}
				test.after(w)
				w.requireBoundLater("gang", 4, 12*time.Second)
			})
		})
	}
}

func (w *world) requireBoundLater(group string, n int, within time.Duration) {
	w.Helper()
	time.Sleep(within)
	require.Equal(w, n, w.bound(group), "waiting: %v", w.unbound())
}

// TestTwoProfiles: pods of one group that name different schedulers wait, although this process serves both, and report why.
func TestTwoProfiles(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		w.Serve("two", w, Times{})
		w.group("gang", 2)
		w.pods("gang", 0, 1)
		w.pods("gang", 1, 1, func(pod *v1.Pod) { pod.Spec.SchedulerName = "two" })
		time.Sleep(time.Hour)
		require.Zero(w, w.bound("gang"))
		require.LessOrEqual(w, w.attempts("gang-0")+w.attempts("gang-1"), 12)
		require.Contains(w, w.reason("gang"), "give all pods of a group the same")
	})
}

// TestTwoGangs: if two gangs want the same devices, one runs, then the other, and neither keeps the scheduler busy.
func TestTwoGangs(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		for _, gang := range []string{"a", "b"} {
			w.group(gang, 3)
			w.pods(gang, 0, 3)
		}
		time.Sleep(time.Hour)
		require.Equal(w, 3, w.bound("a"))
		require.Zero(w, w.bound("b"))
		require.LessOrEqual(w, w.attempts("b-0"), 70, "one in longestTrust, and those when something happened")
		w.delete("a-0")
		w.delete("a-1")
		w.requireBoundLater("b", 3, 12*time.Second)
	})
}

// TestAlwaysFails: if a pod of a gang always fails, the gang pauses longer and longer, and keeps devices from others only
// for a part of the time.
func TestAlwaysFails(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		w.atFilter = func(pod *v1.Pod) error {
			if pod.Name == "gang-1" {
				return errHere
			}
			return nil
		}
		w.group("gang", 2)
		w.pods("gang", 0, 2)
		time.Sleep(10 * time.Minute)
		require.Zero(w, w.bound("gang"))
		require.LessOrEqual(w, w.planned(), 70, "every ten seconds")
		require.GreaterOrEqual(w, w.planned(), 20)
		w.delete("gang-0")
		w.delete("gang-1")
	})
}

// TestNotBoundInPart: no pod is bound until all pods are committed, whichever pod fails.
func TestNotBoundInPart(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		w.atPreBind = func(pod *v1.Pod) error {
			if pod.Name == "gang-3" {
				time.Sleep(10 * time.Second)
				return errHere
			}
			return nil
		}
		w.group("gang", 4)
		w.pods("gang", 0, 4)
		for range 100 {
			time.Sleep(time.Second)
			require.Zero(w, w.bound("gang"))
		}
		for _, pod := range []string{"gang-0", "gang-1", "gang-2", "gang-3"} {
			w.delete(pod)
		}
	})
}

// TestPlanIsLookedAfter: a pod that does not return to the queue is found missing after the others have waited for long.
func TestPlanIsLookedAfter(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		w.group("gang", 2, func(group *v1alpha1.PodGroup) { group.Spec.ScheduleTimeoutSeconds = new(int32(20)) })
		w.pods("gang", 0, 1)
		lost := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gang-1", UID: "gang-1", Labels: map[string]string{v1alpha1.PodGroupLabel: "gang"}},
			Spec:       v1.PodSpec{SchedulerName: "one"},
		}
		require.NoError(w, w.store.Add(lost))
		w.PodChanged(informer.Event[v1.Pod]{After: lost})
		time.Sleep(10 * time.Second)
		require.Equal(w, 2, w.Ledger.InFlightCount())
		require.Len(w, w.queue.nominations(), 1, "the other one waits on its node")
		assignment := w.Assignment("gang-1")
		require.NotNil(w, assignment)
		time.Sleep(16 * time.Second)
		require.NotSame(w, assignment, w.Assignment("gang-1"), "it is planned again")
		w.queue.add(lost)
		w.requireBoundLater("gang", 2, 15*time.Second)
	})
}

// TestGoneWhilePlanned: a pod that is deleted while its gang is planned gets no assignment.
func TestGoneWhilePlanned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		w.group("gang", 2)
		w.pods("gang", 0, 2)
		pod := w.pod("gang-0")
		group, err := w.lookup(pod, "gang")
		require.NoError(t, err)
		plan, err := w.plan(t.Context(), group, w.MembersOf(pod), 2)
		require.NoError(t, err)
		require.NoError(t, w.hold(group, plan.Assignments))
		again := w.pod("gang-1").DeepCopy()
		again.UID = "again"
		require.NoError(t, w.store.Update(again))
		w.start(group, 2, plan.Assignments, pod)
		require.Nil(t, w.Assignment("gang-0"))
		require.Zero(t, w.Ledger.InFlightCount())
		w.PodChanged(informer.Event[v1.Pod]{Before: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID("x")}}, Missed: true})
		w.PodChanged(informer.Event[v1.Pod]{After: again})
		require.NoError(t, w.store.Delete(pod))
		require.NoError(t, w.store.Delete(again))
		time.Sleep(time.Minute)
		w.requireNothingLeft()
	})
}
