package hostile

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// atATime is how many ordinary pods of a stream there are at any moment.
const atATime = 4

// stream is a number of ordinary pods, each with a claim for one device, that come
// and go. As soon as one is bound, it is deleted and the next one is created.
type stream struct {
	space     *harness.Space
	scheduler *harness.Scheduler

	mutex sync.Mutex
	// bound has, by name of the pod, a channel that is closed when it gets bound.
	bound    map[string]chan struct{}
	boundAt  []time.Time
	longest  time.Duration
	waits    []time.Duration
	started  time.Time
	attempts attempts
}

// newStream prepares a space with devices for ordinary pods, and a scheduler.
func newStream(t *testing.T, name string) *stream {
	t.Helper()
	return newStreamOn(t, name, 2, atATime)
}

// newStreamOn is newStream with as many nodes, each with as many devices.
func newStreamOn(t *testing.T, name string, nodes, devices int) *stream {
	t.Helper()
	space := cluster.NewSpace(t, name, "", nodes)
	for node := range nodes {
		space.Devices(node, harness.Numbered(devices)...)
	}
	s := &stream{space: space, scheduler: space.StartScheduler(harness.SchedulerOptions{QPS: 1000}), bound: map[string]chan struct{}{}}
	handler, err := cluster.Informers.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, pod any) { s.saw(pod.(*corev1.Pod)) },
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, cluster.Informers.Core().V1().Pods().Informer().RemoveEventHandler(handler))
	})
	return s
}

func (s *stream) saw(pod *corev1.Pod) {
	if pod.Namespace != s.space.Name || pod.Spec.NodeName == "" {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if bound, found := s.bound[pod.Name]; found {
		delete(s.bound, pod.Name)
		s.boundAt = append(s.boundAt, time.Now())
		close(bound)
	}
}

// run lets ordinary pods come and go until as many were bound as wanted and until
// the work is done, if there is any. It returns the report of that time.
func (s *stream) run(input string, wanted int, work func()) report {
	t := s.space.T
	t.Helper()
	s.started, s.boundAt, s.longest = time.Now(), nil, 0
	before := s.readAttempts()
	finished := make(chan struct{})
	errs := make([]error, atATime)
	var lanes sync.WaitGroup
	for lane := range atATime {
		lanes.Go(func() {
			for i := 0; errs[lane] == nil; i++ {
				select {
				case <-finished:
					if s.count() >= wanted {
						return
					}
				default:
				}
				errs[lane] = s.one(fmt.Sprintf("%s-%d-%d", input, lane, i))
			}
		})
	}
	if work != nil {
		work()
	}
	close(finished)
	lanes.Wait()
	for _, err := range errs {
		require.NoError(t, err, "with input %s", input)
	}
	s.attempts = s.readAttempts().since(before)
	return s.report(input)
}

func (s *stream) count() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.boundAt)
}

// one creates an ordinary pod with its claim, waits until it is bound, and deletes
// both.
func (s *stream) one(name string) error {
	ctx, cancel := context.WithTimeout(s.space.T.Context(), s.space.Patience)
	defer cancel()
	bound := make(chan struct{})
	s.mutex.Lock()
	s.bound[name] = bound
	s.mutex.Unlock()
	claim, pod := builder.Claim(name, s.space.Want(1)).Obj(), s.space.Pod(name, builder.Uses(name))
	pod.Spec.TerminationGracePeriodSeconds = new(int64)
	for _, object := range []runtime.Object{claim, pod} {
		if err := cluster.Objects.Create(ctx, s.space.Name, object); err != nil {
			return err
		}
	}
	created := time.Now()
	select {
	case <-bound:
	case <-ctx.Done():
		last, err := cluster.Client.CoreV1().Pods(s.space.Name).Get(s.space.T.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return fmt.Errorf("ordinary pod %s was not bound within %s: %q", name, s.space.Patience, harness.Reason(last))
	}
	s.mutex.Lock()
	s.longest = max(s.longest, time.Since(created))
	s.waits = append(s.waits, time.Since(created))
	s.mutex.Unlock()
	for _, object := range []runtime.Object{pod, claim} {
		if err := cluster.Objects.Delete(ctx, s.space.Name, object); err != nil {
			return err
		}
	}
	return nil
}

// report says how ordinary pods fared.
type report struct {
	input                   string
	pods                    int
	duration, wait, gap     time.Duration
	attempts                attempts
	podsPerSecond, cpuShare float64
}

func (s *stream) report(input string) report {
	r := report{input: input, pods: len(s.boundAt), duration: time.Since(s.started), wait: s.longest, attempts: s.attempts}
	last := s.started
	for _, at := range s.boundAt {
		r.gap, last = max(r.gap, at.Sub(last)), at
	}
	r.podsPerSecond = float64(r.pods) / r.duration.Seconds()
	r.cpuShare = s.attempts.cpu / r.duration.Seconds()
	return r
}

func (r report) String() string {
	return fmt.Sprintf("report: input=%s pods=%d duration=%s podsPerSecond=%.1f longestWait=%s longestGap=%s schedulerCPU=%.2f %s",
		r.input, r.pods, r.duration.Round(time.Millisecond), r.podsPerSecond,
		r.wait.Round(time.Millisecond), r.gap.Round(time.Millisecond), r.cpuShare, r.attempts)
}

// attempts are the scheduler's own figures on how long it works on one pod while
// no other gets its turn.
type attempts struct {
	total, over64, over128, over512 float64
	// over100 are the calls of extension points of more than 100 ms, by name.
	over100 map[string]float64
	cpu     float64 // seconds
}

func (s *stream) readAttempts() attempts {
	t := s.space.T
	t.Helper()
	var metrics harness.Metrics
	s.space.Eventually("read the scheduler's metrics", func(ctx context.Context) error {
		var err error
		metrics, err = s.scheduler.ReadMetrics(ctx)
		return err
	})
	// Attempts that succeed include the writes before binding, during which others have
	// their turn. For these there is another metric.
	const scheduled, attempt = "scheduler_scheduling_algorithm_duration_seconds", "scheduler_scheduling_attempt_duration_seconds"
	count := func(kind string, labels ...string) float64 {
		n := metrics.Sum(scheduled+kind, labels...)
		for _, result := range []string{"unschedulable", "error"} {
			n += metrics.Sum(attempt+kind, append(labels, "result", result)...)
		}
		return n
	}
	total := count("_count")
	over := func(bound string) float64 { return total - count("_bucket", "le", bound) }
	a := attempts{total: total, over64: over("0.064"), over128: over("0.128"), over512: over("0.512"),
		over100: map[string]float64{}, cpu: metrics.Sum("process_cpu_seconds_total")}
	const point = "scheduler_framework_extension_point_duration_seconds"
	add := func(sign float64, name string, labels ...string) {
		for sample := range metrics.Samples(name, labels...) {
			a.over100[string(sample.Metric["extension_point"])] += sign * float64(sample.Value)
		}
	}
	add(1, point+"_count")
	add(-1, point+"_bucket", "le", "0.1024") // Buckets double from 0.1 ms on.
	return a
}

func (a attempts) since(before attempts) attempts {
	difference := attempts{
		total: a.total - before.total, over64: a.over64 - before.over64, over128: a.over128 - before.over128,
		over512: a.over512 - before.over512, cpu: a.cpu - before.cpu, over100: map[string]float64{},
	}
	for extension, n := range a.over100 {
		if n -= before.over100[extension]; n > 0 {
			difference.over100[extension] = n
		}
	}
	return difference
}

func (a attempts) String() string {
	return fmt.Sprintf("attempts=%.0f over64ms=%.0f over128ms=%.0f over512ms=%.0f extensionPointsOver100ms=%v",
		a.total, a.over64, a.over128, a.over512, a.over100)
}
