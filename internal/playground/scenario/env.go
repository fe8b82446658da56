package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// pollInterval is how often a waiting step looks at the cache.
const pollInterval = 50 * time.Millisecond

// Env is what the steps of one scenario work with; they use it one at a time.
type Env struct {
	scenario Scenario
	objects  *Objects
	cached   Source
	live     Source
	dialect  Dialect
	// patience is how long one Expect may take.
	patience time.Duration

	// apps is what has been confirmed, for each app the newest.
	apps map[string]*confirmed
}

// confirmed is an expectation that the API server has shown to hold.
type confirmed struct {
	expectation Expectation
	// retired expectations held once and are not checked again.
	retired bool
}

// await polls the cache until the expectations hold there, and then the API
// server; what it confirms is remembered.
func (env *Env) await(ctx context.Context, expectations []Expectation) error {
	ctx, cancel := context.WithTimeout(ctx, env.patience)
	defer cancel()
	last := errors.New("nothing was read")
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		unmet := env.unmet(ctx, env.cached, expectations)
		if unmet == nil {
			unmet = env.unmet(ctx, env.live, expectations)
		}
		// An answer that was cut off by the deadline says nothing new.
		if unmet == nil || ctx.Err() == nil {
			last = unmet
		}
		return unmet == nil, nil
	})
	if err != nil {
		return fmt.Errorf("not seen within %s: %w", env.patience, last)
	}
	for _, expectation := range expectations {
		env.remember(expectation)
	}
	return nil
}

func (env *Env) unmet(ctx context.Context, source Source, expectations []Expectation) error {
	snapshot, err := source.Snapshot(ctx, env.scenario.Name)
	if err != nil {
		return err
	}
	var problems []error
	for _, expectation := range expectations {
		problems = append(problems, expectation.unmet(snapshot, env.dialect))
	}
	return errors.Join(problems...)
}

func (env *Env) remember(expectation Expectation) {
	env.apps[expectation.App] = &confirmed{expectation: expectation}
}

func (env *Env) retire(app string) {
	if app := env.apps[app]; app != nil {
		app.retired = true
	}
}
