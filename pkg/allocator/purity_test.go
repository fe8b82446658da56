package allocator_test

import (
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// clone returns a copy that shares nothing with s.
func (s scenario) clone() scenario {
	c := s
	c.state = structured.AllocatedState{
		AllocatedDevices:         s.state.AllocatedDevices.Clone(),
		AllocatedSharedDeviceIDs: s.state.AllocatedSharedDeviceIDs.Clone(),
		AggregatedCapacity:       s.state.AggregatedCapacity.Clone(),
	}
	c.classes = maps.Clone(s.classes)
	for name, class := range c.classes {
		c.classes[name] = class.DeepCopy()
	}
	c.slices = slices.Clone(s.slices)
	for i, slice := range c.slices {
		c.slices[i] = slice.DeepCopy()
	}
	c.claims = slices.Clone(s.claims)
	for i, claim := range c.claims {
		c.claims[i] = claim.DeepCopy()
	}
	c.node = s.node.DeepCopy()
	return c
}

// answerText is the answer of an allocator, as far as a caller can see it.
type answerText struct {
	Results []resourceapi.AllocationResult
	Error   string
}

func answerFrom(results []resourceapi.AllocationResult, err error) answerText {
	a := answerText{Results: results}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

func (s scenario) ask(t *testing.T, celCache *cel.Cache) (answerText, outcome) {
	results, err := s.run(t.Context(), allocator.New, celCache)
	return answerFrom(results, err), outcomeOf(results, err)
}

// TestInputIsNotMutated compares the input before and after, down to what a
// Quantity remembers of its text.
func TestInputIsNotMutated(t *testing.T) {
	forScenarios(t, 3_000_000_000, scenarioCount(3_000), func(t *testing.T, s scenario, celCache *cel.Cache) outcome {
		before := s.clone()
		_, result := s.ask(t, celCache)
		if !reflect.DeepEqual(before, s) {
			t.Errorf("the input was changed:\n%s", diffOf(before.String(), s.String()))
		}
		return result
	})
}

// TestSameInputSameAnswer gives the allocator equal objects at other addresses and
// in maps of their own, with the slices in another order.
func TestSameInputSameAnswer(t *testing.T) {
	forScenarios(t, 4_000_000_000, scenarioCount(3_000), func(t *testing.T, s scenario, celCache *cel.Cache) outcome {
		first, result := s.ask(t, celCache)
		for seed := range int64(2) {
			c := s.clone()
			rand.New(rand.NewSource(seed)).Shuffle(len(c.slices), func(i, j int) { c.slices[i], c.slices[j] = c.slices[j], c.slices[i] })
			if again, _ := c.ask(t, celCache); diffOf(first, again) != "" {
				t.Errorf("the second answer differs (-first +second):\n%s\n%s", diffOf(first, again), s)
			}
		}
		return result
	})
}

// TestSameAllocatorSameAnswer asks one allocator about several nodes, twice and in another order. Its memory
// must not change answers.
func TestSameAllocatorSameAnswer(t *testing.T) {
	others := []*v1.Node{b.Node("node-1", "zone", "2", "rack", "a"), b.Node("node-2", "zone", "1", "rack", "b")}
	forScenarios(t, 9_000_000_000, scenarioCount(2_000), func(t *testing.T, s scenario, celCache *cel.Cache) outcome {
		shared, err := allocator.New(t.Context(), s.features, s.state, s.classes, s.slices, celCache)
		if err != nil {
			t.Error(err)
			return failed
		}
		nodes := append(slices.Clone(others), s.node)
		nodes = append(nodes, nodes...)
		slices.Reverse(nodes[:len(others)+1])
		for _, node := range nodes {
			alone := s
			alone.node = node
			want, _ := alone.ask(t, newCache())
			if diff := diffOf(want, answerFrom(shared.Allocate(t.Context(), node, s.claims))); diff != "" {
				t.Errorf("node %s: an allocator that was used before answers otherwise (-new +used):\n%s\n%s", node.Name, diff, s)
			}
		}
		_, result := s.ask(t, celCache)
		return result
	})
}

// TestConcurrentUse lets several goroutines use one allocator. It is most useful
// with the race detector.
func TestConcurrentUse(t *testing.T) {
	celCache := newCache()
	for seed := range int64(300) {
		s := fromSeed(5_000_000_000 + seed)
		shared, err := allocator.New(t.Context(), s.features, s.state, s.classes, s.slices, celCache)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		answers := make([]answerText, 4)
		for i := range answers {
			wg.Go(func() { answers[i] = answerFrom(shared.Allocate(t.Context(), s.node, s.claims)) })
		}
		wg.Wait()
		for _, answer := range answers[1:] {
			if diff := diffOf(answers[0], answer); diff != "" {
				t.Errorf("answers to the same question differ:\n%s\n%s", diff, s)
			}
		}
	}
}
