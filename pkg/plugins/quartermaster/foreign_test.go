package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/internal/commit/foreign"
)

// TestContendersSinceADearView: on a busy machine a look at all competitors can take long, so its result is used for
// some time. New competitors must count nevertheless.
func TestContendersSinceADearView(t *testing.T) {
	t.Parallel()
	const settleTime = time.Second
	conflicting := func() *v1.Pod { return newPod("theirs", of("other"), uses("conflicting")) }
	for name, test := range map[string]struct {
		before, after func(*fixture)
		want          time.Duration // how long PreBind takes
	}{
		"nobody":    {},
		"a new pod": {after: func(f *fixture) { f.create(conflicting()) }, want: 2 * settleTime},
		"a pod gets its claim": {
			before: func(f *fixture) { f.create(newPod("theirs", of("other"), template("gpu"), made("gpu", "theirs-gpu"))) },
			after:  func(f *fixture) { f.create(with(gpus("theirs-gpu", 1).Obj(), ownedBy("theirs"))) },
			want:   2 * settleTime,
		},
		"a claim by name is created": {
			before: func(f *fixture) { f.create(newPod("theirs", of("other"), uses("later"))) },
			after:  func(f *fixture) { f.create(gpus("later", 1).Obj()) },
			want:   2 * settleTime,
		},
		"a claim is deallocated": {
			before: func(f *fixture) {
				f.changeClaim("foreign", theyAllocate("elsewhere", "gpu-0"))
				f.create(newPod("theirs", of("other"), uses("foreign")))
				time.Sleep(5 * time.Second)
			},
			after: func(f *fixture) { f.changeClaim("foreign", deallocate) },
			want:  2 * settleTime,
		},
		"a pod is nominated": {
			before: func(f *fixture) { f.create(newPod("theirs", of("other"), uses("conflicting"), rejectedThere)) },
			after: func(f *fixture) {
				pod := f.pod("theirs").DeepCopy()
				nominatedThere(pod)
				f.replace(pod)
			},
			want: 2 * settleTime,
		},
		"a claim is announced": {
			before: func(f *fixture) {
				f.changeClaim("foreign", theyAllocate("elsewhere", "gpu-0"))
				time.Sleep(2 * time.Minute)
			},
			after: func(f *fixture) { f.changeClaim("conflicting", announce) },
			want:  2 * foreign.MaxSettleTimes * settleTime,
		},
		"one goes": { // PreBind waits for it until all competitors are looked at again.
			before: func(f *fixture) { f.create(conflicting()) },
			after:  func(f *fixture) { f.remove(f.pod("theirs")) },
			want:   settleTime,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(conflictWorld(), gpus("foreign", 1).Obj()), func(t *testing.T, f *fixture) {
				f.pl.args.SettleTime.Duration = settleTime
				if test.before != nil {
					test.before(f)
				}
				f.settle()
				f.pl.foreign.Cost = func(time.Time) time.Duration { return time.Second }
				f.pl.foreign.Look()
				f.pl.foreign.Cost = nil
				if test.after != nil {
					test.after(f)
				}
				f.settle()
				start := time.Now()
				require.Empty(t, f.schedule(f.pod("p")).phase)
				require.InDelta(t, test.want.Seconds(), time.Since(start).Seconds(), 2*oneStep(settleTime))
			})
		})
	}
}
