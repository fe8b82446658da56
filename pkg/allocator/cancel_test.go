package allocator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

var errCause = errors.New("the pod is gone")

// wraps lists the errors about the end of a context that an error wraps.
func wraps(err error) []error {
	var list []error
	for _, end := range []error{errCause, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, end) {
			list = append(list, end)
		}
	}
	return list
}

// endings are the ways in which a context can have ended.
var endings = map[string]func(context.Context) (context.Context, context.CancelFunc){
	"cancelled": func(parent context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(parent)
		cancel()
		return ctx, cancel
	},
	"cancelled with a cause": func(parent context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(parent)
		cancel(errCause)
		return ctx, func() { cancel(nil) }
	},
	"past its deadline": func(parent context.Context) (context.Context, context.CancelFunc) {
		return context.WithDeadline(parent, time.Unix(0, 0))
	},
	"past its deadline with a cause": func(parent context.Context) (context.Context, context.CancelFunc) {
		return context.WithDeadlineCause(parent, time.Unix(0, 0), errCause)
	},
}

// TestEndedContextAsUpstream: the error wraps what upstream's wraps, and is fatal: it
// says nothing about the node.
func TestEndedContextAsUpstream(t *testing.T) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int64{1, 3} { // With a solution and without.
				s := dropInCase(onNode("p", gpus(2)...))
				s.claims[0].Spec.Devices.Requests[0].Exactly.Count = n
				ctx, cancel := end(t.Context())
				defer cancel()
				_, want := s.run(ctx, structured.NewAllocator, newCache())
				_, got := s.run(ctx, allocator.New, newCache())
				require.NotEmpty(t, wraps(want))
				require.Equal(t, wraps(want), wraps(got), "%v", got)
				require.Equal(t, "fatal", errorClass(want))
				require.Equal(t, "fatal", errorClass(got))
				require.ErrorIs(t, got, allocator.ErrInterrupted)
			}
		})
	}
}

// TestEndedContextOfRandomScenarios: whenever upstream's error wraps the cause, so does
// ours. Where upstream finds something wrong with a claim first, ours may be about either.
func TestEndedContextOfRandomScenarios(t *testing.T) {
	forScenarios(t, 7_000_000_000, scenarioCount(2_000), func(t *testing.T, s scenario, celCache *cel.Cache) outcome {
		results, err := s.run(t.Context(), allocator.New, celCache)
		ctx, cancel := endings["cancelled with a cause"](t.Context())
		defer cancel()
		none, got := s.run(ctx, allocator.New, celCache)
		_, want := s.forUpstream().run(ctx, structured.NewAllocator, celCache)
		if none != nil || errorClass(got) != "fatal" || errorClass(want) != "fatal" {
			t.Errorf("the context has ended; upstream's error is %v, ours is %v\n%s", want, got, s)
		}
		if errors.Is(want, errCause) && !errors.Is(got, errCause) {
			t.Errorf("upstream's error is %v, ours is %v\n%s", want, got, s)
		}
		return outcomeOf(results, err)
	})
}

// TestContextThatEndsLate ends the context of a random scenario after some checks by the search. The answer
// must be an interruption, or equal that of an undisturbed search.
func TestContextThatEndsLate(t *testing.T) {
	forScenarios(t, 8_000_000_000, scenarioCount(2_000), func(t *testing.T, s scenario, celCache *cel.Cache) outcome {
		want, result := s.ask(t, celCache)
		for looks := range 3 {
			inner, cancel := context.WithCancelCause(t.Context())
			ctx := &interruption{inner, looks, func() { cancel(errCause) }}
			results, err := s.run(ctx, allocator.New, celCache)
			cancel(nil)
			if errors.Is(err, errCause) {
				continue
			}
			if diff := diffOf(want, answerFrom(results, err)); diff != "" {
				t.Errorf("after %d looks at the context the answer differs (-undisturbed +disturbed):\n%s\n%s", looks, diff, s)
			}
		}
		return result
	})
}
