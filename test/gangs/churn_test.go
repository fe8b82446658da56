package gangs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// How long gangs come and go: GANGS_DURATION, such as 5m.
const defaultChurn = 20 * time.Second

func churnDuration(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("GANGS_DURATION")
	if text == "" {
		return defaultChurn
	}
	duration, err := time.ParseDuration(text)
	require.NoError(t, err, "GANGS_DURATION")
	return duration
}

const (
	churnNodes, churnDevices = 8, 8
	// gangsAtATime is how many gangs there are at a time; together they want about five times what there is.
	gangsAtATime = 10
	// longestHold is how long a gang may hold devices and not run: its claims are written, or a scheduler that was killed
	// has left them, and the next one finds them (after takeoverPause, 3s in tests) and releases them. Where other programs
	// have the processors that takes long. Who keeps devices for good has them until the end.
	longestHold = harness.Patience
)

// TestChurn: gangs of 2 to 64 come and go beside single pods, and the scheduler is killed again and again. No gang that does
// not get to run holds devices for longer than writing and releasing takes, and in the end all have run.
func TestChurn(t *testing.T) {
	harness.Long(t, "gangs come and go for a minute")
	t.Parallel()
	s := newSpace(t, "churn", true, churnNodes, churnDevices)
	scheduler := s.StartScheduler(harness.SchedulerOptions{})
	watch := newHolds(s)
	ctx, stop := context.WithTimeout(t.Context(), churnDuration(t))
	defer stop()
	var all sync.WaitGroup
	counts := &tally{}
	for i := range gangsAtATime {
		all.Go(func() { s.comeAndGo(ctx, i, counts) })
	}
	all.Go(func() { s.singles(ctx, counts) })
	kills := 0
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(4+rand.IntN(8)) * time.Second):
			require.NoError(t, scheduler.Kill())
			require.NoError(t, scheduler.Restart(t.Context()))
			kills++
		}
	}
	all.Wait()
	runs, longest, violations := watch.results()
	t.Logf("%d gangs with %d pods and %d single pods ran, %d kills; %d times claims of a gang were allocated and it did not run with them, for %s at most",
		counts.gangs, counts.pods, counts.single, kills, runs, longest.Round(time.Millisecond))
	require.Empty(t, violations)
	require.Greater(t, counts.gangs, gangsAtATime, "gangs have to come and go")
}

// tally counts what ran.
type tally struct {
	sync.Mutex
	gangs, pods, single int
}

// now is how many have run so far.
func (c *tally) now() int {
	c.Lock()
	defer c.Unlock()
	return c.gangs + c.single
}

// runningInTurn is Running for pods that may have to wait for others: large gangs get their turn when no more small ones come. It
// gives up when nothing has run for the patience of the space.
func (s *space) runningInTurn(counts *tally, pods []string) {
	s.T.Helper()
	for before := -1; before != counts.now(); {
		before = counts.now()
		if harness.Poll(context.Background(), s.Patience, func(context.Context) error { return s.allRun(pods) }) == nil {
			return
		}
	}
	s.Running(pods...) // It says who does not.
}

// allRun is nil if all pods run.
func (s *space) allRun(pods []string) error {
	for _, name := range pods {
		pod, err := s.KnownPod(name)
		if err == nil {
			err = s.Runs(pod)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// comeAndGo has one gang after the other run for a while until the context ends, two at least.
func (s *space) comeAndGo(ctx context.Context, i int, counts *tally) {
	random := rand.New(rand.NewPCG(uint64(i), 21))
	for round := 0; ctx.Err() == nil || round < 2; round++ {
		size := 2 + random.IntN(14)
		if random.IntN(8) == 0 {
			size = churnNodes * churnDevices * (1 + random.IntN(2)) / 2
		}
		name := fmt.Sprintf("gang-%d-%d", i, round)
		s.group(name, int32(size))
		pods := s.members(name, 0, size)
		s.runningInTurn(counts, pods)
		counts.Lock()
		counts.gangs, counts.pods = counts.gangs+1, counts.pods+size
		counts.Unlock()
		time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
		s.deletePods(pods...)
		s.deleteGroup(name)
	}
}

// singles has pods of no gang come and go.
func (s *space) singles(ctx context.Context, counts *tally) {
	for round := 0; ctx.Err() == nil; round++ {
		name := fmt.Sprintf("single-%d", round)
		s.ClaimAndPod(name, s.Want(1))
		s.runningInTurn(counts, []string{name})
		counts.Lock()
		counts.single++
		counts.Unlock()
		time.Sleep(300 * time.Millisecond)
		s.deletePods(name)
		require.NoError(s.T, cluster.Client.ResourceV1().ResourceClaims(s.Name).Delete(context.Background(), name, metav1.DeleteOptions{}))
	}
}

// deleteGroup deletes a PodGroup.
func (s *space) deleteGroup(name string) {
	s.T.Helper()
	client, err := dynamic.NewForConfig(cluster.ControlPlane.AdminConfig())
	require.NoError(s.T, err)
	groups := client.Resource(v1alpha1.SchemeGroupVersion.WithResource("podgroups")).Namespace(s.Name)
	require.NoError(s.T, groups.Delete(s.T.Context(), name, metav1.DeleteOptions{}))
}
