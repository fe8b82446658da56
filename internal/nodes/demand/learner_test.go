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
