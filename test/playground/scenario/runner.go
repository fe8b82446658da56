package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// Runner runs scenarios concurrently. All fields are required.
type Runner struct {
	Objects *Objects
	// Cached is the source that steps read while they wait, Live the source for confirmation.
	Cached, Live Source
	// Dialect is the wording of the scheduler under test.
	Dialect Dialect
	// Patience limits the wait of one Expect step.
	Patience time.Duration
	// Ended is called when a scenario has ended, from one goroutine at a time.
	Ended func(Result)
}

// Result is the outcome of one scenario.
type Result struct {
	Scenario Scenario
	// Err is the error of the step that failed; nil if all steps passed.
	Err error
	// Took is the time from the first step to the last.
	Took time.Duration

	env *Env
}

// Prepare creates the namespaces and the cluster-scoped objects of all
// scenarios and returns when pods can be created.
func (r *Runner) Prepare(ctx context.Context, scenarios []Scenario, accounts AccountsReady) error {
	namespaces := make([]string, 0, len(scenarios))
	for _, s := range scenarios {
		namespaces = append(namespaces, s.Name)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: s.NamespaceLabels}}
		if err := r.Objects.Create(ctx, "", namespace); err != nil {
			return fmt.Errorf("scenario %s: %w", s.Name, err)
		}
	}
	for _, s := range scenarios {
		for _, object := range s.Cluster {
			if err := r.createInCluster(ctx, object); err != nil {
				return fmt.Errorf("scenario %s: %w", s.Name, err)
			}
		}
	}
	return accounts(ctx, namespaces)
}

// untilNodesAreKnown limits the attempts to create an object that the API server forbids, to a quarter of a minute.
var untilNodesAreKnown = wait.Backoff{Duration: 20 * time.Millisecond, Factor: 1.5, Steps: 15}

// createInCluster creates an object. The API server forbids slices with devices that take resources of a node until its cache has
// the declared features of the node (KEP-5517).
func (r *Runner) createInCluster(ctx context.Context, object runtime.Object) error {
	return retry.OnError(untilNodesAreKnown, func(err error) bool { return apierrors.IsForbidden(err) && ctx.Err() == nil },
		func() error { return r.Objects.Create(ctx, "", object) })
}

// Run runs the steps of all scenarios and returns when all have ended. The
// order of the results is that of the scenarios.
func (r *Runner) Run(ctx context.Context, scenarios []Scenario) []Result {
	results := make([]Result, len(scenarios))
	ended := make(chan int)
	var running sync.WaitGroup
	for index, s := range scenarios {
		running.Go(func() {
			results[index] = r.runOne(ctx, s)
			ended <- index
		})
	}
	go func() {
		running.Wait()
		close(ended)
	}()
	for index := range ended {
		r.Ended(results[index])
	}
	return results
}

func (r *Runner) runOne(ctx context.Context, s Scenario) Result {
	env := &Env{
		scenario: s,
		objects:  r.Objects,
		cached:   r.Cached,
		live:     r.Live,
		dialect:  r.Dialect,
		patience: r.Patience,
		apps:     map[string]*confirmed{},
	}
	result := Result{Scenario: s, env: env}
	began := time.Now()
	for number, step := range s.Steps {
		if err := step.Run(ctx, env); err != nil {
			result.Err = fmt.Errorf("step %d of %d failed to %s: %w", number+1, len(s.Steps), step.Does, err)
			break
		}
	}
	result.Took = time.Since(began)
	return result
}

// Tally is the sum over all scenarios.
type Tally struct {
	// Scheduled and Waiting count the pods that are as expected.
	Scheduled, Waiting int
	// Problems has one entry for each deviation from the expectations.
	Problems []string
}

// Confirm checks all expectations once more in the API server, and counts the results. Pods without any expectation
// are problems, too.
func (r *Runner) Confirm(ctx context.Context, results []Result) Tally {
	var tally Tally
	for _, result := range results {
		if result.Err != nil {
			tally.Problems = append(tally.Problems, fmt.Sprintf("%s: %v", result.Scenario.Name, result.Err))
		}
		snapshot, err := r.Live.Snapshot(ctx, result.Scenario.Name)
		if err != nil {
			tally.Problems = append(tally.Problems, fmt.Sprintf("%s: %v", result.Scenario.Name, err))
			continue
		}
		tally.add(result, snapshot, r.Dialect)
	}
	return tally
}

func (t *Tally) add(result Result, snapshot *Snapshot, dialect Dialect) {
	for _, app := range sets.List(sets.KeySet(result.env.apps)) {
		app := result.env.apps[app]
		if !app.retired {
			if err := app.expectation.unmet(snapshot, dialect); err != nil {
				t.Problems = append(t.Problems, fmt.Sprintf("%s: no longer at the end: %v", result.Scenario.Name, err))
				continue
			}
		}
		if app.expectation.Waiting {
			t.Waiting += app.expectation.Pods
		} else {
			t.Scheduled += app.expectation.Pods
		}
	}
	if strays := result.env.strays(snapshot); len(strays) > 0 && result.Err == nil {
		t.Problems = append(t.Problems, fmt.Sprintf("%s: nothing is expected of the pods %s", result.Scenario.Name, strings.Join(strays, ", ")))
	}
}

// strays returns the names of pods without any expectation.
func (env *Env) strays(snapshot *Snapshot) []string {
	var names []string
	for _, pod := range snapshot.Pods {
		if env.apps[pod.Labels[builder.AppLabel]] == nil {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Summary returns the last line of a demo.
func (t Tally) Summary() string {
	return fmt.Sprintf("demo: %d pods scheduled, %d not schedulable as expected, %d failed",
		t.Scheduled, t.Waiting, len(t.Problems))
}
