package demand_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/quartermaster-dra/quartermaster/internal/nodes/demand"
	"github.com/quartermaster-dra/quartermaster/pkg/placement"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

func gpus(count int) []placement.Ask { return []placement.Ask{{Kind: "gpu", Count: count}} }

// counts returns the numbers of devices that pods are likely to ask for.
func counts(d *placement.Demand) []int {
	var counts []int
	for _, shape := range d.Shapes {
		for _, request := range shape.Requests {
			if d.Kinds[request.Kind] == "gpu" {
				counts = append(counts, request.Count)
			}
		}
	}
	return counts
}

func TestLearns(t *testing.T) {
	t.Parallel()
	l := demand.New(clocktesting.NewFakePassiveClock(time.Now()))
	before := l.Demand(0)
	for i := range 1000 {
		l.Saw(b.Pod(fmt.Sprintf("p%d", i)), gpus(4))
	}
	require.NotEqual(t, before.Version, l.Demand(0).Version)
	require.Contains(t, counts(l.Demand(0)), 4)
	same := l.Demand(0)
	l.Saw(b.Pod("nothing"), nil)
	require.Same(t, same, l.Demand(0))
}

// TestSeededOnce: existing pods count once, although every profile calls Seed.
func TestSeededOnce(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := demand.New(clocktesting.NewFakePassiveClock(now))
	l.Seed(func(found func(*v1.Pod, []placement.Ask)) {
		for i := range 1000 {
			pod := b.Pod(fmt.Sprintf("p%d", i))
			pod.CreationTimestamp = metav1.NewTime(now.Add(time.Hour)) // By the server's clock.
			found(pod, gpus(2))
		}
	})
	require.Contains(t, counts(l.Demand(0)), 2)
	l.Seed(func(func(*v1.Pod, []placement.Ask)) { t.Error("once more") })
}

// TestWaitingCountAgain: of a thousand pods that come, few request four devices. While one of these waits, it counts with each other
// pod, and not afterwards.
func TestWaitingCountAgain(t *testing.T) {
	t.Parallel()
	weight := func(d *demand.Learner) (of4 float64) {
		for _, shape := range d.Demand(0).Shapes {
			if shape.Requests[0].Count == 4 {
				of4 += shape.Weight
			}
		}
		return of4
	}
	l := demand.New(clocktesting.NewFakePassiveClock(time.Now()))
	waits, asked := true, 0
	come := func() {
		for i := range 1000 {
			l.SawAgain(func(pod *v1.Pod) bool { asked++; require.Equal(t, "large", pod.Name); return waits })
			l.Saw(b.Pod(fmt.Sprintf("p%d", i)), gpus(1))
		}
	}
	l.Saw(b.Pod("large"), gpus(4))
	come()
	require.Less(t, weight(l), 0.01)
	l.Waits(b.Pod("large"), gpus(4))
	come()
	require.InDelta(t, 1.0/3, weight(l), 0.1)
	waits = false
	come()
	require.Equal(t, 1001, asked)

	require.InDelta(t, 1.0/4, weight(l), 0.1)
}
