package gangs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// starvingVariable is how long TestStarving lasts at most, as a duration.
const starvingVariable = "STARVING"

// Sizes of TestStarving: a large pod takes a node, the gang half of them.
const (
	streamNodes, streamDevices = 16, 8
	streamGang                 = streamNodes / 2
	streamBacklog              = 150
)

// A stream is a space where small pods take each device that becomes free, beside a large pod and a gang.
type stream struct {
	*space
	random *rand.Rand
	small  int
	// ends holds when small pods end.
	ends map[string]time.Time
	// sum is that of the parts of the devices in use, each second since the large pods came.
	sum, seconds float64
	waited       map[string]time.Duration
}

// TestStarving: in a stream of small pods that never lets eight devices of a node be free at once, a pod with eight and a gang of 64 run with
// holds, and not with kube-scheduler. It tells what part of the devices was in use until then, with holds and without. Small pods end when
// their activeDeadlineSeconds are over.
func TestStarving(t *testing.T) {
	limit, err := time.ParseDuration(os.Getenv(starvingVariable))
	if err != nil {
		t.Skipf("it takes a quarter of an hour; %s=15m runs it", starvingVariable)
	}
	done := make(chan struct{})
	var streams sync.WaitGroup
	results := make(map[string]*stream)
	for _, name := range []string{"holds", "no-holds", "in-tree"} {
		s := &stream{newSpace(t, name, true, streamNodes, streamDevices), rand.New(rand.NewPCG(42, 0)), 0, make(map[string]time.Time), 0, 0, make(map[string]time.Duration)}
		results[name] = s
		switch after := "0s"; name {
		case "in-tree":
			stock, err := cluster.StartStockSchedulerFor(t.Context(), s.Name+"-stock", s.Profile, 50)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, stock.Stop()) })
		case "holds":
			after = "10s"
			fallthrough
		default:
			s.StartScheduler(harness.SchedulerOptions{PluginArgs: harness.HoldArgs(after)})
		}
		streams.Go(func() {
			s.run(limit, done)
			if name == "holds" {
				close(done)
			}
		})
	}
	streams.Wait()
	for name, s := range results {
		t.Logf("%s: %.1f %% of the devices in use for %.0f s, %d small pods; waited: %v", name, 100*s.sum/s.seconds, s.seconds, s.small, s.waited)
	}
	assert.Len(t, results["holds"].waited, 1+streamGang)
	assert.Empty(t, results["in-tree"].waited)
}

// run plays the stream until the large pods run, others are done, or the limit is over.
func (s *stream) run(limit time.Duration, done <-chan struct{}) {
	s.Create(builder.Claim("node", s.Want(streamDevices)).Template())
	var began time.Time
	for second := range time.Tick(time.Second) {
		used, pending := s.look(second, began)
		for range streamBacklog - pending {
			s.more(began.IsZero())
		}
		switch {
		case !began.IsZero():
			s.sum, s.seconds = s.sum+float64(used)/(streamNodes*streamDevices), s.seconds+1
		case used == streamNodes*streamDevices:
			began = second
			s.Create(s.Pod("large", builder.FromTemplate("node")))
			s.group("gang", streamGang)
			for i := range streamGang {
				s.Create(in("gang", s.Pod(fmt.Sprintf("gang-%d", i), builder.FromTemplate("node"))))
			}
		}
		select {
		case <-done:
			return
		default:
		}
		if len(s.waited) == 1+streamGang || !began.IsZero() && second.Sub(began) > limit {
			return
		}
	}
}

// look ends the small pods whose time is over, and returns how many devices the bound pods have, and how many small pods wait.
func (s *stream) look(now, began time.Time) (used, pending int) {
	for _, pod := range s.Pods() {
		isSmall := strings.HasPrefix(pod.Name, "small-")
		end, known := s.ends[pod.Name]
		switch {
		case pod.DeletionTimestamp != nil:
		case pod.Spec.NodeName == "":
			if isSmall {
				pending++
			}
		case !isSmall:
			used += streamDevices
			if s.waited[pod.Name] == 0 {
				s.waited[pod.Name] = now.Sub(began).Round(time.Second)
			}
		case !known:
			used++
			s.ends[pod.Name] = now.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second)
		case !now.Before(end):
			s.ends[pod.Name] = now.Add(time.Hour) // What the informer has may be older than the deletion.
			s.deletePods(pod.Name)
		default:
			used++
		}
	}
	return used, pending
}

// more creates a small pod: of ten, seven run for about half a minute and the others for up to ten. At first, they have run for some time.
func (s *stream) more(first bool) {
	seconds := 20 + s.random.Int64N(20)
	if s.random.IntN(10) >= 7 {
		seconds = 60 + s.random.Int64N(540)
	}
	if first {
		seconds = 1 + s.random.Int64N(seconds)
	}
	pod := s.Pod(fmt.Sprintf("small-%06d", s.small), builder.FromTemplate("one"))
	pod.Spec.ActiveDeadlineSeconds, pod.Spec.TerminationGracePeriodSeconds, pod.Spec.RestartPolicy = &seconds, new(int64), corev1.RestartPolicyNever
	s.small++
	s.Create(pod)
}
