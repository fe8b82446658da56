package beside

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/hold"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// pairings are the schedulers that start at once, with all pods waiting.
var pairings = map[string]func(b *board, qps int) []func() (*harness.Scheduler, error){
	stockBesideStock: func(b *board, qps int) []func() (*harness.Scheduler, error) {
		return []func() (*harness.Scheduler, error){b.newStock(qps), b.newOtherStock("other-"+b.Name, qps)}
	},
	"ours beside stock": func(b *board, qps int) []func() (*harness.Scheduler, error) {
		return []func() (*harness.Scheduler, error){b.newOurs("ours-" + b.Name), b.newStock(qps)}
	},
	"ours beside ours": func(b *board, _ int) []func() (*harness.Scheduler, error) {
		return []func() (*harness.Scheduler, error){b.newOurs("ours-1-" + b.Name), b.newOurs("ours-2-" + b.Name)}
	},
}

const (
	stockBesideStock = "stock beside stock"
	unguardedTitle   = "unguarded"
)

// TestGuarded: with a guard, no two schedulers hand a device out twice, whichever they are. With
// several runs, it tells how much longer it takes until all pods are bound than two unchanged
// kube-schedulers need without a guard.
func TestGuarded(t *testing.T) {
	harness.Long(t, "several pairs of schedulers contend")
	limits := []int{500}
	unguarded := make(map[int]time.Duration)
	if runs(t) > 1 {
		limits = append(limits, 50)
		for _, qps := range limits {
			unguarded[qps], _ = playPairing(t, unguardedTitle, stockBesideStock, qps)
		}
	}
	cluster.UseGuard(t, "guard")
	for name := range pairings {
		for _, qps := range limits {
			t.Run(fmt.Sprintf("%s, %d requests a second", name, qps), func(t *testing.T) {
				median, all := playPairing(t, "guarded", name, qps)
				for _, f := range all {
					assert.Zero(t, f.doubled, "devices allocated to two claims: %s", f)
				}
				if without, measured := unguarded[qps]; measured {
					t.Logf("median until all were bound: %.1f s, %.2f times that of stock beside stock without a guard (%.1f s)",
						median.Seconds(), median.Seconds()/without.Seconds(), without.Seconds())
				}
			})
		}
	}
}

// playPairing has schedulers start at once, in as many runs as asked for, each with schedulers of its
// own. It returns the median time until all pods were bound, and what each run has shown.
func playPairing(t *testing.T, title, name string, qps int) (time.Duration, []figures) {
	t.Helper()
	var all []figures
	var bound []time.Duration
	for i := range runs(t) {
		space := fmt.Sprintf("%s-%s-%d-%d", title, strings.ReplaceAll(name, " ", "-"), qps, i+1)
		require.True(t, t.Run(space, func(t *testing.T) {
			b := newBoard(t, space)
			b.Unchecked = title == unguardedTitle
			f := b.startTogether(pairings[name](b, qps))
			all, bound = append(all, f), append(bound, f.bound)
		}))
	}
	slices.Sort(bound)
	return bound[len(bound)/2], all
}

// TestGuardInScheduler: a scheduler of ours that is the guard asks itself like everybody else, and
// waits for nobody.
func TestGuardInScheduler(t *testing.T) {
	harness.Long(t, "two schedulers contend in a burst")
	require.NoError(t, cluster.InstallGuardInScheduler(t.Context(), admissionregistrationv1.Fail))
	args, err := harness.GuardArgs()
	require.NoError(t, err)
	b := newBoard(t, "guard-in-scheduler")
	options := asShipped
	options.ExtraArgs = args
	guard := b.startOurs("ours-guards", options)
	t.Cleanup(func() { require.NoError(t, cluster.RemoveGuard(context.WithoutCancel(t.Context()))) })
	knowsOfGuard(b.Space, guard)
	b.startStock()
	for range runs(t) {
		before := reviews(t, guard)
		f := b.run()
		assert.Zero(t, f.doubled, "devices allocated to two claims: %s", f)
		assert.GreaterOrEqual(t, reviews(t, guard)-before, pods, "each allocation was asked about")
		if late := lateAnswers(t, guard); len(late) > 0 {
			t.Logf("the API server did not answer in time, so that the guard was not relied on: %v", late)
			continue
		}
		assert.Zero(t, f.waits["post-write-settle"].Count(), "nobody has to wait for the other scheduler: %s", f)
	}
}

// TestGuardedHold: with a guard in the scheduler, kube-scheduler does not get what is held for a pod of a namespace that wants that, says why, and gets it
// once it is not held any more.
func TestGuardedHold(t *testing.T) {
	require.NoError(t, cluster.InstallGuardInScheduler(t.Context(), admissionregistrationv1.Fail))
	args, err := harness.GuardArgs()
	require.NoError(t, err)
	s := cluster.NewSpace(t, "guarded-hold", "", 1)
	s.Devices(0, harness.Numbered(2)...)
	ours := s.StartScheduler(harness.SchedulerOptions{ExtraArgs: args, PluginArgs: harness.HoldArgs("1s")})
	t.Cleanup(func() { require.NoError(t, cluster.RemoveGuard(context.WithoutCancel(t.Context()))) })
	knowsOfGuard(s, ours)
	s.ClaimAndPod("runs", s.Want(1))
	s.Running("runs")
	label := fmt.Appendf(nil, `{"metadata": {"labels": {%q: "true"}}}`, hold.GuardLabel)
	_, err = cluster.Client.CoreV1().Namespaces().Patch(t.Context(), s.Name, types.MergePatchType, label, metav1.PatchOptions{})
	require.NoError(t, err)
	s.Create(builder.Claim("both", s.Want(2)).Template(), builder.Claim("one", s.Want(1)).Template(), s.Pod("large", builder.FromTemplate("both")))
	s.Eventually("hold devices for pod large", func(ctx context.Context) error {
		metrics, err := ours.ReadMetrics(ctx)
		if err == nil && metrics.Sum("quartermaster_held_devices") == 0 {
			err = errors.New("no devices are held")
		}
		return err
	})
	s.Create(s.Pod("same", builder.FromTemplate("one")))
	s.Waiting("same", "held for pod "+s.Name+"/large")

	stock, err := cluster.StartStockSchedulerFor(t.Context(), s.Name+"-stock", "theirs", 50)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stock.Stop()) })
	theirs := s.Pod("theirs", builder.FromTemplate("one"))
	theirs.Spec.SchedulerName = "theirs"
	s.Create(theirs)
	s.Waiting("theirs", "was to get devices that are held for pod "+s.Name+"/large", hold.GuardLabel)
	s.DeletePod("same")
	s.DeletePod("large")
	s.Running("theirs")
}

// knowsOfGuard waits until a scheduler knows that there is a guard.
func knowsOfGuard(s *harness.Space, ours *harness.Scheduler) {
	s.T.Helper()
	s.Eventually("know of its guard", func(ctx context.Context) error {
		metrics, err := ours.ReadMetrics(ctx)
		if err == nil && metrics.Sum("quartermaster_guard_in_place") == 0 {
			err = errors.New("the scheduler knows of no guard")
		}
		return err
	})
}

// lateAnswers returns the log lines of a scheduler with a guard about answers of the API server that did not come in time: to the guard,
// which lets the allocation pass then, or to the scheduler, which looks for its guard every few seconds. Both happen on a busy machine.
func lateAnswers(t *testing.T, guard *harness.Scheduler) (late []string) {
	t.Helper()
	for _, about := range []string{"It is not known whether the claim", "Looked for a guard"} {
		lines, err := guard.LogLines(about)
		require.NoError(t, err)
		for _, line := range lines {
			if about != "Looked for a guard" || strings.Contains(line, "context deadline exceeded") {
				late = append(late, line)
			}
		}
	}
	return late
}

// reviews is how many allocations a scheduler has been asked to let pass, and has.
func reviews(t *testing.T, guard *harness.Scheduler) int {
	t.Helper()
	metrics, err := guard.ReadMetrics(t.Context())
	require.NoError(t, err)
	return int(metrics.Sum("quartermaster_guard_review_duration_seconds_count", "allocates", "true", "answer", "allowed"))
}

// startTogether is run with schedulers that are started at once when all pods wait.
func (b *board) startTogether(start []func() (*harness.Scheduler, error)) figures {
	b.T.Helper()
	return b.play(func() {
		schedulers, errs := make([]*harness.Scheduler, len(start)), make([]error, len(start))
		var starting sync.WaitGroup
		for i := range start {
			starting.Go(func() { schedulers[i], errs[i] = start[i]() })
		}
		starting.Wait()
		require.NoError(b.T, errors.Join(errs...))
		for _, scheduler := range schedulers {
			b.stopAtEnd(scheduler.Process)
		}
	})
}

func (b *board) newOurs(profile string) func() (*harness.Scheduler, error) {
	b.profiles = append(b.profiles, profile)
	return func() (*harness.Scheduler, error) {
		ours, err := cluster.StartScheduler(b.T.Context(), harness.SchedulerOptions{Profile: profile})
		if err == nil {
			b.mutex.Lock()
			defer b.mutex.Unlock()
			b.ours = append(b.ours, ours)
		}
		return ours, err
	}
}

func (b *board) newStock(qps int) func() (*harness.Scheduler, error) {
	b.profiles = append(b.profiles, corev1.DefaultSchedulerName)
	stockHasRun = true
	return func() (*harness.Scheduler, error) {
		return cluster.StartStockSchedulerWith(b.T.Context(), b.Name+"-stock", qps)
	}
}

func (b *board) newOtherStock(profile string, qps int) func() (*harness.Scheduler, error) {
	b.profiles = append(b.profiles, profile)
	return func() (*harness.Scheduler, error) {
		return cluster.StartStockSchedulerFor(b.T.Context(), b.Name+"-other-stock", profile, qps)
	}
}
