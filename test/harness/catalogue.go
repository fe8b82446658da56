package harness

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/playground/catalogue"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// Catalogue runs scenarios of the demo's catalogue for the pods of one scheduler. The zero
// value is ready.
type Catalogue struct {
	once    sync.Once
	results []scenario.Result
	tally   scenario.Tally
	err     error
}

// Run runs scenarios at the same time, as the demo does, and makes a subtest for each of them.
// Their names in the cluster are fixed: if the test runs again (go test -count), it reports
// the results of the first run. The scheduler has the profile of the manifests, as the pods
// do.
func (c *Catalogue) Run(t *testing.T, cluster *Cluster, scheduler *Scheduler, scenarios []scenario.Scenario) {
	t.Helper()
	require.NotEmpty(t, scenarios)
	c.once.Do(func() { c.err = c.run(t.Context(), cluster, scheduler.Profile, scenarios) })
	require.NoError(t, c.err)
	for _, result := range c.results {
		t.Run(result.Scenario.Name, func(t *testing.T) {
			require.NoError(t, result.Err, "the log of the scheduler is %s", scheduler.LogFile())
		})
	}
	assert.Empty(t, strings.Join(c.tally.Problems, "\n"), "at the end")
}

func (c *Catalogue) run(ctx context.Context, cluster *Cluster, profile string, scenarios []scenario.Scenario) error {
	cached, err := scenario.NewCache(ctx, cluster.Client, nil)
	if err != nil {
		return err
	}
	runner := &scenario.Runner{
		Objects:  cluster.Objects,
		Cached:   cached,
		Live:     scenario.LiveSource{Client: cluster.Client},
		Dialect:  catalogue.Quartermaster(),
		Patience: Patience,
		Ended:    func(scenario.Result) {},
	}
	for _, class := range catalogue.Classes() {
		if err := runner.Objects.Create(ctx, "", class); err != nil {
			return err
		}
	}
	if err := runner.Prepare(ctx, scenarios, scenario.DefaultAccounts(cluster.Client)); err != nil {
		return err
	}
	if err := cluster.known(ctx, profile, ""); err != nil {
		return err
	}
	c.results = runner.Run(ctx, scenarios)
	c.tally = runner.Confirm(ctx, c.results)
	return nil
}
