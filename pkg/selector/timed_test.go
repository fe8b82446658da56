package selector

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// In these tests the test determines how long an expression takes, by its own clock.

// timed is an evaluator of expressions that are true for all devices.
type timed struct {
	*Evaluator
	// deaf expressions cannot be interrupted.
	deaf  bool
	mutex sync.Mutex
	// takes is the time that an expression takes for a device, by expression.
	takes map[string]time.Duration
	// order lists the expressions in the order in which devices were begun.
	order []string
}

func newTimed(t *testing.T, takes map[string]time.Duration) *timed {
	e := &timed{Evaluator: NewEvaluator(cel.NewCache(1000, cel.Features{})), takes: takes}
	e.matches = func(ctx context.Context, program *cel.CompilationResult, _ cel.Device) (bool, error) {
		e.mutex.Lock()
		d := e.takes[program.Expression]
		e.order = append(e.order, program.Expression)
		e.mutex.Unlock()
		if e.deaf {
			ctx = context.Background()
		}
		select {
		case <-time.After(d):
			return true, nil
		case <-ctx.Done():
			return false, errors.New("operation interrupted")
		}
	}
	t.Cleanup(func() {
		for e.busy() {
			time.Sleep(time.Second)
		}
	})
	return e
}

func (e *timed) busy() bool {
	e.background.mutex.Lock()
	defer e.background.mutex.Unlock()
	return e.background.running
}

// queued returns the number of expressions that wait in the background.
func (e *timed) queued() int {
	e.background.mutex.Lock()
	defer e.background.mutex.Unlock()
	return len(e.background.order)
}

// served returns the tenants that have a share of the background.
func (e *timed) served() []string {
	e.background.mutex.Lock()
	defer e.background.mutex.Unlock()
	return slices.Sorted(maps.Keys(e.background.spent))
}

// expression returns one of many expressions.
func expression(i int) string { return fmt.Sprintf("%d == %d", i, i) }

// aSet returns a set with a single selector, of a claim.
func aSet(expression string) Set {
	class := b.Class("class")
	claim := b.Claim("claim", b.Request("gpu", class.Name).Where(expression)).Obj()
	return NewSet(class, claim, "gpu", claim.Spec.Devices.Requests[0].Exactly.Selectors)
}

// pools returns pools on one node each, whose devices look different.
func pools(t *testing.T, n, devices int) (*inventory.Store, []*inventory.NodePool) {
	t.Helper()
	store := inventory.NewStore(inventory.Options{})
	list := make([]*inventory.NodePool, n)
	for i := range list {
		name := fmt.Sprint("node-", i)
		slice := b.NodeSlice(name, b.NumberedDevices("gpu", devices)...).Obj()
		for d := range slice.Spec.Devices {
			number := int64(i)
			slice.Spec.Devices[d].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"node": {IntValue: &number}}
		}
		store.RefreshSlice(slice.Name, func() *resourceapi.ResourceSlice { return slice })
		list[i] = store.OnNode(b.Node(name))[0]
	}
	return store, list
}

// ask selects within a new budget, and returns how long that took.
func (e *timed) ask(t *testing.T, pool *inventory.NodePool, expression string) (*Selection, time.Duration, error) {
	t.Helper()
	start := time.Now()
	selection, err := e.Select(WithBudget(t.Context(), NewBudget(2*quickly, 0)), pool, aSet(expression))
	return selection, time.Since(start), err
}

// pending is ask for an answer that must be pending.
func (e *timed) pending(t *testing.T, pool *inventory.NodePool, expression string) (*Work, time.Duration) {
	t.Helper()
	_, took, err := e.ask(t, pool, expression)
	require.ErrorIs(t, err, ErrPending)
	require.NotErrorIs(t, err, ErrRuntime)
	var pending *Pending
	require.ErrorAs(t, err, &pending)
	require.ErrorContains(t, err, "claim default/claim request gpu selector 0 takes long to evaluate on the devices of this node")
	return pending.Work, took
}

// knows reports whether the selection of a pool is remembered.
func (e *timed) knows(pool *inventory.NodePool, expression string) bool {
	set := aSet(expression)
	_, found := set.selections().Get(e.memory, &pool.Content.Subject)
	return found
}
