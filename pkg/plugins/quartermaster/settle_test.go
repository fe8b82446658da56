package quartermaster

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// oneStep is the difference that looking only now and then makes.
func oneStep(settleTime time.Duration) float64 { return 1.1 * (settleTime / settleSteps).Seconds() }

// announce is what another scheduler does before it allocates a claim.
func announce(claim *resourceapi.ResourceClaim) {
	claim.Finalizers = []string{resourceapi.Finalizer}
	recordProtection(claim)
	recordAsTheirs(claim)
}

// theyAllocate is how the other scheduler allocates a claim.
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

// TestSettle: a scheduler that does not look gets time to show what it has allocated,
// before our write and after it, and whoever looks gives way to it.
func TestSettle(t *testing.T) {
	t.Parallel()
	const settleTime = time.Second
	tests := map[string]struct {
		off      bool
		foreign  time.Duration // how long ago another scheduler has allocated, 0: never
		conflict time.Duration // when it allocates the same device
		until    time.Duration // and when it gives that up, 0: never
		want     time.Duration // how long PreBind takes
		written  bool          // whether our allocation gets written
		loses    bool
	}{
		"alone":                           {written: true},
		"foreign long ago":                {foreign: 2 * foreignWindow, written: true},
		"foreign lately":                  {foreign: time.Second, want: 2 * settleTime, written: true},
		"foreign lately, off":             {off: true, foreign: time.Second, written: true},
		"a conflict before the write":     {foreign: time.Second, conflict: settleTime / 2, want: settleTime / 2, loses: true},
		"a conflict after the write":      {foreign: time.Second, conflict: 3 * settleTime / 2, want: 2 * settleTime, written: true, loses: true},
		"a conflict that ends":            {foreign: time.Second, conflict: 5 * settleTime / 4, until: 7 * settleTime / 4, want: 2 * settleTime, written: true, loses: true},
		"a conflict too late to lose":     {foreign: time.Second, conflict: 3 * settleTime, want: 2 * settleTime, written: true},
		"a conflict after the write, off": {off: true, foreign: time.Second, conflict: settleTime / 2, written: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(conflictWorld(), gpus("foreign", 1).Obj()), func(t *testing.T, f *fixture) {
				f.pl.args.SettleTime.Duration = settleTime
				if test.off {
					f.pl.args.SettleTime.Duration = 0
				}
				if test.foreign > 0 {
					f.changeClaim("foreign", allocate("elsewhere", "gpu-0"))
					time.Sleep(test.foreign)
				}
				if test.conflict > 0 {
					time.AfterFunc(test.conflict, func() { f.changeClaim("rival", allocate("n1", "gpu-0")) })
				}
				if test.until > 0 {
					time.AfterFunc(test.until, func() {
						f.changeClaim("rival", func(claim *resourceapi.ResourceClaim) { claim.Status = resourceapi.ResourceClaimStatus{} })
					})
				}
				start := time.Now()
				result := f.schedule(f.pod("p"))
				require.InDelta(t, test.want.Seconds(), time.Since(start).Seconds(), oneStep(settleTime))
				require.Equal(t, test.loses, result.phase == "PreBind", result.text())
				require.Equal(t, !test.loses, f.claim("c").Status.Allocation != nil)
				require.Equal(t, test.written, len(f.writes) > 0, f.writes)
				time.Sleep(time.Minute)
			})
		})
	}
}

// TestSettleBesideBacklog: while another scheduler has announced allocations and does not
// get them written, a plan settles for longer before it is carried out.
func TestSettleBesideBacklog(t *testing.T) {
	t.Parallel()
	const settleTime = time.Second
	// A delay of 5 s and more is as long as can be, and what is announced is believed for a
	// minute.
	const longest, believed = maxSettleTimes * settleTime, time.Minute
	tests := map[string]struct {
		announced time.Duration // how long ago rival was announced
		allocates time.Duration // after which time rival is allocated, 0: never
		device    string
		before    time.Duration // how long PreBind waits before it writes
		want      time.Duration // and altogether
		loses     bool
	}{
		"the same device":           {allocates: 3 * time.Second, device: "gpu-0", want: 3 * time.Second, loses: true},
		"another device":            {allocates: time.Second, device: "gpu-1", before: settleTime + delayFactor*time.Second, want: 2 * (settleTime + delayFactor*time.Second)},
		"another device, at once":   {allocates: time.Millisecond, device: "gpu-1", before: settleTime, want: 2 * settleTime},
		"nothing for a long time":   {before: longest, want: 2 * longest},
		"slower than it ever takes": {allocates: longest + longest/2, device: "gpu-1", before: longest, want: 2 * longest},
		"given up long ago":         {announced: believed, before: settleTime, want: 2 * settleTime},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(conflictWorld(), gpus("before", 1).Obj(), gpus("lately", 1).Obj()), func(t *testing.T, f *fixture) {
				f.pl.args.SettleTime.Duration = settleTime
				f.changeClaim("before", theyAllocate("elsewhere", "gpu-0"))
				f.changeClaim("rival", announce)
				time.Sleep(test.announced)
				f.changeClaim("lately", theyAllocate("elsewhere", "gpu-1"))
				f.settle()
				if test.allocates > 0 {
					time.AfterFunc(test.allocates, func() { f.changeClaim("rival", theyAllocate("n1", test.device)) })
				}
				start := time.Now()
				f.beforeOurs(func() {
					require.InDelta(t, test.before.Seconds(), time.Since(start).Seconds(), oneStep(settleTime))
				})
				result := f.schedule(f.pod("p"))
				require.InDelta(t, test.want.Seconds(), time.Since(start).Seconds(), 2*oneStep(settleTime))
				require.Equal(t, test.loses, result.phase == "PreBind", result.text())
				require.Equal(t, !test.loses, f.claim("c").Status.Allocation != nil)
				time.Sleep(time.Minute)
			})
		})
	}
}

// TestSettleIsBounded: whatever others do, pods get bound in the end.
func TestSettleIsBounded(t *testing.T) {
	t.Parallel()
	const settleTime, claims = 100 * time.Millisecond, 100
	objects := conflictWorld()
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
		require.InDelta(t, (2 * maxSettleTimes * settleTime).Seconds(), time.Since(start).Seconds(), 2*oneStep(settleTime))
		time.Sleep(time.Minute)
	})
}

// TestUsersCannotMakePodsSettle: anybody who may create a claim may protect it as well, again
// and again.
func TestUsersCannotMakePodsSettle(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(conflictWorld(), gpus("before", 1).Obj()), func(t *testing.T, f *fixture) {
		f.changeClaim("before", theyAllocate("elsewhere", "gpu-0"))
		time.Sleep(time.Hour)
		for range 10 {
			f.changeClaim("rival", func(claim *resourceapi.ResourceClaim) { claim.Finalizers, claim.ManagedFields = nil, nil })
			f.changeClaim("rival", func(claim *resourceapi.ResourceClaim) {
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

// TestClaimInUseIsJoined: a pod that gave way to a later claim of another scheduler would
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
				f.changeClaim("rival", allocate("n1", "gpu-0"))
				f.settle()
				result := f.schedule(f.pod("joins"))
				require.Equal(t, test.loses, result.phase == "PreBind", result.text())
				time.Sleep(time.Minute)
			})
		})
	}
}
