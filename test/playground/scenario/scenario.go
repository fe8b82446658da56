package scenario

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
)

// Scenario is one demonstration of the scheduler's behaviour.
type Scenario struct {
	// Name is a DNS label: the name of the namespace and of the node pool.
	Name string
	// Shows describes in one sentence what the scenario shows.
	Shows string
	// NamespaceLabels are put on the namespace.
	NamespaceLabels map[string]string
	// Cluster are cluster-scoped objects that exist before the first step of
	// any scenario: nodes, ResourceSlices, device classes.
	Cluster []runtime.Object
	// Steps run one after another; the first that fails ends the scenario.
	Steps []Step
}

// Nodes returns count nodes of the scenario's node pool, named after it.
func Nodes(scenarioName string, count int) []runtime.Object {
	nodes := make([]runtime.Object, 0, count)
	for index := range count {
		nodes = append(nodes, fleet.Node(NodeName(scenarioName, index), scenarioName, nil))
	}
	return nodes
}

// NodeName returns the name of node number index (from 0) of a scenario.
func NodeName(scenarioName string, index int) string {
	return fmt.Sprintf("%s-%d", scenarioName, index)
}

// Step is one step of a scenario.
type Step struct {
	// Does completes the sentence "the step failed to ...".
	Does string
	// Run performs the step. Its error describes the missing result.
	Run func(ctx context.Context, env *Env) error
}

// Create creates objects in the given order; namespaced ones go to the
// scenario's namespace.
func Create(objects ...runtime.Object) Step {
	return Step{
		Does: "create " + describe(objects),
		Run: func(ctx context.Context, env *Env) error {
			for _, object := range objects {
				if err := env.objects.Create(ctx, env.scenario.Name, object); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// Delete deletes objects; it does not wait until finalizers are done.
func Delete(objects ...runtime.Object) Step {
	return Step{
		Does: "delete " + describe(objects),
		Run: func(ctx context.Context, env *Env) error {
			for _, object := range objects {
				if err := env.objects.Delete(ctx, env.scenario.Name, object); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// Refused tries to create an object and fails unless the API server refuses it
// with a text that contains every one of the given parts.
func Refused(object runtime.Object, parts ...string) Step {
	return Step{
		Does: "be refused " + describe([]runtime.Object{object}),
		Run: func(ctx context.Context, env *Env) error {
			err := env.objects.Create(ctx, env.scenario.Name, object)
			if err == nil {
				return fmt.Errorf("the API server accepted it, want a refusal with %q", parts)
			}
			if missing := missingParts(err.Error(), parts); len(missing) > 0 {
				return fmt.Errorf("the API server said %q, want a text with %q", err, missing)
			}
			return nil
		},
	}
}

// Expect waits until all expectations hold at the same time, as the API server shows them. An expectation about an
// app holds until a later Expect replaces it, and is checked again at the end.
func Expect(expectations ...Expectation) Step {
	titles := make([]string, 0, len(expectations))
	for _, expectation := range expectations {
		titles = append(titles, expectation.String())
	}
	return Step{
		Does: "see " + strings.Join(titles, " and "),
		Run: func(ctx context.Context, env *Env) error {
			return env.await(ctx, expectations)
		},
	}
}

// Deleted records that the pods of an app should be gone from here on; earlier expectations about them still count,
// but are not checked again.
func Deleted(app string) Step {
	return Step{
		Does: "forget the pods of " + app,
		Run: func(_ context.Context, env *Env) error {
			env.retire(app)
			return nil
		},
	}
}

func describe(objects []runtime.Object) string {
	names := make([]string, 0, len(objects))
	for _, object := range objects {
		names = append(names, objectTitle(object))
	}
	return strings.Join(names, ", ")
}

// objectTitle returns "<kind> <name>" for messages.
func objectTitle(object runtime.Object) string {
	kind := fmt.Sprintf("%T", object)
	if known, _, err := kinds.ObjectKinds(object); err == nil {
		kind = known[0].Kind
	}
	if accessor, err := meta.Accessor(object); err == nil {
		return kind + " " + accessor.GetName()
	}
	return kind
}

// missingParts returns the parts that text does not contain.
func missingParts(text string, parts []string) []string {
	var missing []string
	for _, part := range parts {
		if !strings.Contains(text, part) {
			missing = append(missing, part)
		}
	}
	return missing
}
