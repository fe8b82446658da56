package gangs

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// longestHold is how long a gang may hold devices and not run: its claims are written, or a scheduler that was killed has left
// them, and the next one releases them after its pause for a takeover. Other programs may have the processors meanwhile. What is
// kept for good is kept until the end.
const longestHold = harness.Patience

// holds follows, in the order of the API's own history, which gangs have devices and do not run. A claim belongs to the gang of
// the pod that it was made for, whose name it begins with ("gang-1-0-7-one-abcde"), and a gang runs once all its pods are
// bound: none of them is ever bound as long as one cannot be.
type holds struct {
	mutex sync.Mutex
	gangs map[string]*held
	// ended is what came of times in which a gang had devices and did not run.
	ended      int
	longest    time.Duration
	violations []string
}

// held is a gang: how many of its claims are allocated since when, and whether any of its pods was bound.
type held struct {
	claims map[string]bool
	since  time.Time
	bound  bool
}

func newHolds(s *space) *holds {
	h := &holds{gangs: make(map[string]*held)}
	saw := func(obj any, gone bool) {
		switch o := obj.(type) {
		case *resourceapi.ResourceClaim:
			if o.Namespace == s.Name {
				h.sawClaim(o, gone)
			}
		case *corev1.Pod:
			if o.Namespace == s.Name && o.Spec.NodeName != "" {
				h.sawBound(o)
			}
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { saw(obj, false) },
		UpdateFunc: func(_, obj any) { saw(obj, false) },
		DeleteFunc: func(obj any) { saw(obj, true) },
	}
	for _, informer := range []cache.SharedIndexInformer{
		cluster.Informers.Resource().V1().ResourceClaims().Informer(), cluster.Informers.Core().V1().Pods().Informer(),
	} {
		registration, err := informer.AddEventHandler(handler)
		require.NoError(s.T, err)
		s.T.Cleanup(func() { require.NoError(s.T, informer.RemoveEventHandler(registration)) })
	}
	return h
}

// gangOf returns the gang of a pod or claim by its name, "" if it is none's.
func gangOf(name string) string {
	parts := strings.Split(name, "-")
	if parts[0] != "gang" || len(parts) < 4 {
		return ""
	}
	return strings.Join(parts[:3], "-")
}

func (h *holds) of(gang string) *held {
	g := h.gangs[gang]
	if g == nil {
		g = &held{claims: make(map[string]bool)}
		h.gangs[gang] = g
	}
	return g
}

func (h *holds) sawClaim(claim *resourceapi.ResourceClaim, gone bool) {
	name := gangOf(claim.Name)
	if name == "" {
		return
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	g := h.of(name)
	if !gone && claim.Status.Allocation != nil {
		if len(g.claims) == 0 {
			g.since = time.Now()
		}
		g.claims[claim.Name] = true
		return
	}
	if !g.claims[claim.Name] {
		return
	}
	delete(g.claims, claim.Name)
	if len(g.claims) == 0 && !g.bound {
		h.end(name, g)
	}
}

// end notes that a gang has no devices any more and did not run with them.
func (h *holds) end(name string, g *held) {
	took := time.Since(g.since)
	h.ended++
	h.longest = max(h.longest, took)
	if took > longestHold {
		h.violations = append(h.violations, fmt.Sprintf("%s held devices for %s and did not run", name, took.Round(time.Millisecond)))
	}
}

func (h *holds) sawBound(pod *corev1.Pod) {
	name := gangOf(pod.Name + "-")
	if name == "" {
		return
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	g := h.of(name)
	if !g.bound && len(g.claims) > 0 {
		if took := time.Since(g.since); took > longestHold {
			h.violations = append(h.violations, fmt.Sprintf("%s held devices for %s before it ran", name, took.Round(time.Millisecond)))
		}
	}
	g.bound = true
}

// results are how many times a gang had devices and did not run with them, for how long at most, and what is wrong.
func (h *holds) results() (times int, longest time.Duration, violations []string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for name, g := range h.gangs {
		if len(g.claims) > 0 && !g.bound {
			h.violations = append(h.violations, fmt.Sprintf("%s holds %d claims and does not run", name, len(g.claims)))
		}
	}
	return h.ended, h.longest, h.violations
}
