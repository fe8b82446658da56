package quartermaster

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/commit/foreign"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// oneStep is the error in seconds that comes from looking only at intervals.
func oneStep(settleTime time.Duration) float64 {
	return 1.1 * (settleTime / foreign.SettleSteps).Seconds()
}

// announce changes a claim like another scheduler that is about to allocate it.
func announce(claim *resourceapi.ResourceClaim) {
	claim.Finalizers = []string{resourceapi.Finalizer}
	recordProtection(claim)
	recordAsTheirs(claim)
}

// theyAllocate changes a claim like another scheduler that allocates it.
func theyAllocate(pool string, devices ...string) func(*resourceapi.ResourceClaim) {
	return func(claim *resourceapi.ResourceClaim) {
		allocated := claim.DeepCopy()
		allocate(pool, devices...)(allocated)
		recordManager(claim, allocated)
		recordAsTheirs(claim)
		claim.Finalizers, claim.Status = allocated.Finalizers, allocated.Status
	}
}

func recordAsTheirs(claim *resourceapi.ResourceClaim) {
	for i := range claim.ManagedFields {
		claim.ManagedFields[i].Manager = "kube-scheduler"
	}
}

// of sets a pod's scheduler.
func of(scheduler string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.SchedulerName = scheduler }
}

// rejectedThere is a pod for which its scheduler has found no place.
func rejectedThere(pod *v1.Pod) {
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
}

// nominatedThere is a pod for which its scheduler has found a place.
func nominatedThere(pod *v1.Pod) { pod.Status.NominatedNodeName = "n1" }

// retriedThere is a pod for which its scheduler has perhaps found a place meanwhile.
func retriedThere(pod *v1.Pod) {
	rejectedThere(pod)
	nominatedThere(pod)
}

func gated(pod *v1.Pod) {
	pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/wait"}}
}

// TestWhereToSettle: claims settle where a conflict is possible, and nowhere else.
func TestWhereToSettle(t *testing.T) {
	t.Parallel()
	const settleTime = time.Second
	tests := map[string]struct {
		pods   []*v1.Pod
		since  time.Duration // how long ago they were created
		change func(*fixture)
		want   time.Duration // how long PreBind takes
	}{
		"alone":                                   {},
		"allocated by others elsewhere":           {change: func(f *fixture) { f.changeClaim("foreign", theyAllocate("elsewhere", "gpu-0")) }},
		"allocated by others here, just now":      {change: func(f *fixture) { f.changeClaim("foreign", theyAllocate("n1", "gpu-1")) }, want: settleTime},
		"allocated by others here, before":        {since: 3 * settleTime, change: func(f *fixture) { f.changeClaim("foreign", theyAllocate("n1", "gpu-1")); time.Sleep(3 * settleTime) }},
		"a pod just created":                      {pods: []*v1.Pod{newPod("theirs", of("other"), uses("conflicting"))}, want: 2 * settleTime},
		"a pod that nobody looks after":           {pods: []*v1.Pod{newPod("theirs", of("other"), uses("conflicting"))}, since: foreign.Youth + time.Second, want: settleTime},
		"a pod that nobody looks after, long ago": {pods: []*v1.Pod{newPod("theirs", of("other"), uses("conflicting"))}, since: 2 * time.Minute},
		"a pod that was rejected":                 {pods: []*v1.Pod{newPod("theirs", of("other"), uses("conflicting"), rejectedThere)}, since: time.Hour, want: settleTime},
		"a pod with a nomination":                 {pods: []*v1.Pod{newPod("theirs", of("other"), uses("conflicting"), nominatedThere)}, since: time.Second, want: 2 * foreign.MaxSettleTimes * settleTime},
		"a pod with a nomination for preemption":  {pods: []*v1.Pod{newPod("theirs", of("other"), uses("conflicting"), retriedThere)}, since: time.Second, want: 2 * settleTime},
		"a pod with a nomination, long ago":       {pods: []*v1.Pod{newPod("theirs", of("other"), uses("conflicting"), nominatedThere)}, since: time.Hour, want: settleTime},
		"a pod that waited long, nominated now": {pods: []*v1.Pod{newPod("theirs", of("other"), uses("conflicting"))}, since: time.Hour, want: 2 * foreign.MaxSettleTimes * settleTime,
			change: func(f *fixture) {
				pod := f.pod("theirs").DeepCopy()
				nominatedThere(pod)
				f.replace(pod)
				time.Sleep(settleTime)
			}},
		"a pod that cannot use the devices":        {pods: []*v1.Pod{newPod("theirs", of("other"), uses("nic"))}},
		"a pod of which nobody knows what it uses": {pods: []*v1.Pod{newPod("theirs", of("other"), uses("classless"))}, want: 2 * settleTime},
		"a pod with a gate":                        {pods: []*v1.Pod{newPod("theirs", of("other"), uses("conflicting"), gated)}},
		"a pod whose claim does not exist":         {pods: []*v1.Pod{newPod("theirs", of("other"), uses("conflicting"), uses("missing"))}},
		"a pod without claims":                     {pods: []*v1.Pod{newPod("theirs", of("other"))}},
		"a pod of ours":                            {pods: []*v1.Pod{newPod("theirs", of("default"), uses("conflicting"))}},
		"a pod bound long ago, updated": {pods: []*v1.Pod{boundTo(newPod("theirs", of("other"), uses("conflicting")), "n1")}, since: time.Hour, change: func(f *fixture) {
			f.pl.foreign.Look() // It is forgotten.
			labelled := f.pod("theirs").DeepCopy()
			labelled.Labels = map[string]string{"a": "b"}
			f.replace(labelled)
		}},
		"a pod that goes": {pods: []*v1.Pod{newPod("theirs", of("other"), uses("conflicting"))}, change: func(f *fixture) { f.remove(f.pod("theirs")) }},
		"a pod that has been bound": {pods: []*v1.Pod{newPod("theirs", of("other"), uses("conflicting"))}, want: settleTime, change: func(f *fixture) {
			f.changeClaim("conflicting", theyAllocate("n1", "gpu-1"))
			f.replace(boundTo(f.pod("theirs"), "n1"))
			time.Sleep(3 * settleTime)
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := plus(conflictWorld(), gpus("foreign", 1).Obj(), builder.Class("nic", `device.driver == "nic.example.com"`),
				builder.Claim("nic", builder.Request("nic", "nic")).Obj(), builder.Claim("classless", builder.Request("x", "x")).Obj())
			inCluster(t, objects, func(t *testing.T, f *fixture) {
				f.pl.args.SettleTime.Duration = settleTime
				for _, pod := range test.pods {
					f.create(pod)
				}
				time.Sleep(test.since)
				if test.change != nil {
					test.change(f)
				}
				f.settle()
				start := time.Now()
				require.Empty(t, f.schedule(f.pod("p")).phase)
				require.InDelta(t, test.want.Seconds(), time.Since(start).Seconds(), 2*oneStep(settleTime))
				time.Sleep(time.Minute)
			})
		})
	}
}

// TestSettle: a non-participating scheduler gets time to show its allocations, before the plugin's write while it is
// busy, and after it; the plugin's claim yields.
func TestSettle(t *testing.T) {
	t.Parallel()
	const settleTime = time.Second
	tests := map[string]struct {
		off      bool
		pod      func(*v1.Pod) // another scheduler's pod, nil: there is none
		conflict time.Duration // when it is allocated the same device
		until    time.Duration // and when it gives that up, 0: never
		want     time.Duration // how long PreBind takes
		written  bool          // whether our allocation gets written
		loses    bool
	}{
		"alone":                                  {written: true},
		"busy":                                   {pod: retriedThere, want: 2 * settleTime, written: true},
		"busy, off":                              {off: true, pod: nominatedThere, written: true},
		"a conflict before the write":            {pod: nominatedThere, conflict: settleTime / 2, want: settleTime / 2, loses: true},
		"a conflict after the write":             {pod: rejectedThere, conflict: settleTime / 2, want: settleTime, written: true, loses: true},
		"a conflict after the write, while busy": {pod: retriedThere, conflict: 3 * settleTime / 2, want: 2 * settleTime, written: true, loses: true},
		"a conflict that ends":                   {pod: rejectedThere, conflict: settleTime / 4, until: 3 * settleTime / 4, want: settleTime, written: true, loses: true},
		"a conflict too late to lose":            {pod: rejectedThere, conflict: 2 * settleTime, want: settleTime, written: true},
		"a conflict after the write, off":        {off: true, pod: rejectedThere, conflict: settleTime / 2, written: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, conflictWorld(), func(t *testing.T, f *fixture) {
				f.pl.args.SettleTime.Duration = settleTime
				if test.off {
					f.pl.args.SettleTime.Duration = 0
				}
				if test.pod != nil {
					f.create(newPod("theirs", of("other"), uses("conflicting"), test.pod))
					f.settle()
				}
				if test.conflict > 0 {
					time.AfterFunc(test.conflict, func() { f.changeClaim("conflicting", allocate("n1", f.deviceOf("c"))) })
				}
				if test.until > 0 {
					time.AfterFunc(test.until, func() {
						f.changeClaim("conflicting", func(claim *resourceapi.ResourceClaim) { claim.Status = resourceapi.ResourceClaimStatus{} })
					})
				}
				start := time.Now()
				result := f.schedule(f.pod("p"))
				require.InDelta(t, test.want.Seconds(), time.Since(start).Seconds(), 2*oneStep(settleTime))
				require.Equal(t, test.loses, result.phase == "PreBind", result.text())
				require.Equal(t, !test.loses, f.claim("c").Status.Allocation != nil)
				require.Equal(t, test.written, len(f.writes) > 0, f.writes)
				time.Sleep(time.Minute)
			})
		})
	}
}

// TestSettleBesideBacklog: while another scheduler has announced allocations and has not written them, a plan settles
// for longer before it is carried out. Once all expected writes are there, it need not settle any longer.
func TestSettleBesideBacklog(t *testing.T) {
	t.Parallel()
	const settleTime = time.Second
	// A delay of 5 s and more is as long as can be, and what is announced is believed for a
	// minute.
	const longest, believed = foreign.MaxSettleTimes * settleTime, time.Minute
	tests := map[string]struct {
		announced time.Duration // how long ago conflicting was announced
		allocates time.Duration // after which time conflicting is allocated, 0: never
		device    string
		before    time.Duration // how long PreBind waits before it writes
		want      time.Duration // and altogether
		loses     bool
	}{
		"the same device":           {allocates: 3 * time.Second, device: "gpu-0", want: 3 * time.Second, loses: true},
		"another device":            {allocates: 3 * time.Second, device: "gpu-1", before: 3 * time.Second, want: 3*time.Second + settleTime},
		"nothing for a long time":   {before: longest, want: 2 * longest},
		"slower than it ever takes": {allocates: longest + longest/2, device: "gpu-1", before: longest, want: longest + longest/2},
		"given up long ago":         {announced: believed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(conflictWorld(), gpus("before", 1).Obj(), gpus("lately", 1).Obj()), func(t *testing.T, f *fixture) {
				f.pl.args.SettleTime.Duration = settleTime
				f.changeClaim("before", theyAllocate("elsewhere", "gpu-0"))
				f.changeClaim("conflicting", announce)
				time.Sleep(test.announced)
				f.changeClaim("lately", theyAllocate("elsewhere", "gpu-1"))
				f.settle()
				if test.allocates > 0 {
					time.AfterFunc(test.allocates, func() { f.changeClaim("conflicting", theyAllocate("n1", test.device)) })
				}
				start := time.Now()
				f.beforeOurs(func() {
					require.InDelta(t, test.before.Seconds(), time.Since(start).Seconds(), oneStep(settleTime))
				})
				result := f.schedule(f.pod("p"))
				require.InDelta(t, test.want.Seconds(), time.Since(start).Seconds(), 2*oneStep(settleTime))
				require.Equal(t, test.loses, result.phase == "PreBind", result.text())
				require.Equal(t, !test.loses, f.claim("c").Status.Allocation != nil)
				time.Sleep(2 * time.Minute)
			})
		})
	}
}

// TestSettleIsBounded: pods get bound in the end, whatever other schedulers do.
func TestSettleIsBounded(t *testing.T) {
	t.Parallel()
	const settleTime, claims = 100 * time.Millisecond, 100
	objects := plus(conflictWorld(), newPod("stuck", of("other"), uses("conflicting"), nominatedThere))
	for i := range claims {
		objects = append(objects, gpus(fmt.Sprintf("busy-%d", i), 1).Obj())
	}
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		f.pl.args.SettleTime.Duration = settleTime
		for i := range claims {
			// One after the other is announced, and allocated three seconds later.
			claim, begin := fmt.Sprintf("busy-%d", i), time.Duration(i)*settleTime
			time.AfterFunc(begin, func() { f.changeClaim(claim, announce) })
			time.AfterFunc(begin+3*time.Second, func() { f.changeClaim(claim, theyAllocate("elsewhere", claim)) })
		}
		time.Sleep(5 * time.Second)
		start := time.Now()
		require.Empty(t, f.schedule(f.pod("p")).phase)
		require.InDelta(t, (2 * foreign.MaxSettleTimes * settleTime).Seconds(), time.Since(start).Seconds(), 4*oneStep(settleTime))
		time.Sleep(time.Minute)
	})
}

// TestUsersCannotMakePodsSettle: users who may create a claim may protect it as well, repeatedly.
func TestUsersCannotMakePodsSettle(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(conflictWorld(), gpus("before", 1).Obj()), func(t *testing.T, f *fixture) {
		f.changeClaim("before", theyAllocate("elsewhere", "gpu-0"))
		time.Sleep(time.Hour)
		for range 10 {
			f.changeClaim("conflicting", func(claim *resourceapi.ResourceClaim) { claim.Finalizers, claim.ManagedFields = nil, nil })
			f.changeClaim("conflicting", func(claim *resourceapi.ResourceClaim) {
				announce(claim)
				claim.ManagedFields[0].Manager = "kubectl-patch"
			})
			time.Sleep(2 * time.Second)
		}
		start := time.Now()
		require.Empty(t, f.schedule(f.pod("p")).phase)
		require.Zero(t, time.Since(start), "nobody else allocates anything")
		time.Sleep(time.Minute)
	})
}

// TestClaimInUseIsJoined: a pod that yielded to a later claim of another scheduler would
// free nothing as long as a bound pod uses the claim.
func TestClaimInUseIsJoined(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		user  *v1.Pod
		loses bool
	}{
		"a bound pod uses it":          {user: boundTo(newPod("user", uses("c")), "n1")},
		"a pod uses it that may leave": {user: newPod("user", uses("c")), loses: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(conflictWorld(), test.user, newPod("joins", uses("c"))), func(t *testing.T, f *fixture) {
				f.otherInstanceAllocates("c", "n1", "gpu-0")
				f.changeClaim("c", reservedFor("user"))
				f.changeClaim("conflicting", allocate("n1", "gpu-0"))
				f.settle()
				result := f.schedule(f.pod("joins"))
				require.Equal(t, test.loses, result.phase == "PreBind", result.text())
				time.Sleep(time.Minute)
			})
		})
	}
}

// deviceOf returns the device that a claim has, or is about to get.
func (f *fixture) deviceOf(name string) string {
	claim := f.claim(name)
	allocation := claim.Status.Allocation
	if allocation == nil {
		allocation = f.pl.state.Ledger.InFlight(claim.UID)
	}
	require.NotNil(f.t, allocation)
	return allocation.Devices.Results[0].Device
}
