package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// pollInterval is the interval at which a waiting step reads the cache.
const pollInterval = 50 * time.Millisecond

// Env is the environment of one scenario's steps, which use it one at a time.
type Env struct {
	scenario Scenario
	objects  *Objects
	cached   Source
	live     Source
	dialect  Dialect
	// patience limits the wait of one Expect.
	patience time.Duration

	// apps has the newest confirmed expectation for each app.
	apps map[string]*confirmed
}

// confirmed is an expectation that the API server has shown to hold.
type confirmed struct {
	expectation Expectation
	// retired expectations held once and are not checked again.
	retired bool
}

// await polls the cache until the expectations hold there, and then the API server; it records the confirmed ones.
func (env *Env) await(ctx context.Context, expectations []Expectation) error {
	ctx, cancel := context.WithTimeout(ctx, env.patience)
	defer cancel()
	last := errors.New("nothing was read")
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		unmet := env.unmet(ctx, env.cached, expectations)
		if unmet == nil {
			unmet = env.unmet(ctx, env.live, expectations)
		}
		// An answer that the deadline cut off is not informative.
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
