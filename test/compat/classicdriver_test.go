package compat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// driver is a resource driver whose controller in the control plane allocates claims
// (KEP-3063). It is as simple as can be: what it knows is what the API server knows, and
// whenever a claim or a context changes it looks at all of them. It works for one
// namespace, in the version of claims that the release has.
type driver struct {
	// name is that of the driver, and of its controller; class the class of its claims.
	name, class string
	// capacity is how many claims can be allocated for each node.
	capacity map[string]int
	// exclusive says that its claims cannot be shared (v1alpha2).
	exclusive bool
	// reserves says that it reserves claims for the pod for which it allocates them, as
	// drivers may do to spare the scheduler that.
	reserves bool
	// classless says that its class is created by the test.
	classless bool

	space  *harness.Space
	client dynamic.Interface
	stop   context.CancelFunc
	ended  chan struct{}
}

// newDriver makes a driver with one place for a claim on each of the given nodes of the
// space, and its class. Its controller runs until the end of the test, unless halted.
func newDriver(s *harness.Space, name string, edits ...func(*driver)) *driver {
	s.T.Helper()
	client, err := dynamic.NewForConfig(cluster.ControlPlane.AdminConfig())
	require.NoError(s.T, err)
	d := &driver{name: name + "." + s.Driver, class: s.Name + "-" + name, space: s, client: client, capacity: make(map[string]int)}
	for _, edit := range edits {
		edit(d)
	}
	if !d.classless {
		d.createClass(nil)
	}
	d.start()
	s.T.Cleanup(d.halt)
	return d
}

// places sets how many claims can be allocated for the first nodes of the space.
func places(counts ...int) func(*driver) {
	return func(d *driver) {
		for i, count := range counts {
			d.capacity[d.space.Node(i)] = count
		}
	}
}

func exclusive(d *driver) { d.exclusive = true }

func reserves(d *driver) { d.reserves = true }

func classless(d *driver) { d.classless = true }

// resource is the client for a resource of the driver's namespace.
func (d *driver) resource(name string) dynamic.ResourceInterface {
	return d.client.Resource(resourceOf(name)).Namespace(d.space.Name)
}

func resourceOf(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: resourceapi.GroupName, Version: string(tested.claims), Resource: name}
}

// recheck is the pause after which a controller looks again if something went wrong.
const recheck = 200 * time.Millisecond

// start runs the controller.
func (d *driver) start() {
	ctx, cancel := context.WithCancel(context.Background())
	d.stop, d.ended = cancel, make(chan struct{})
	changed := make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	informers := dynamicinformer.NewFilteredDynamicSharedInformerFactory(d.client, 0, d.space.Name, nil)
	for _, name := range []string{"resourceclaims", "podschedulingcontexts"} {
		_, err := informers.ForResource(resourceOf(name)).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { signal() },
			UpdateFunc: func(any, any) { signal() },
			DeleteFunc: func(any) { signal() },
		})
		require.NoError(d.space.T, err)
	}
	informers.Start(ctx.Done())
	go func() {
		defer close(d.ended)
		defer informers.Shutdown()
		for {
			var again <-chan time.Time
			if err := errors.Join(d.syncClaims(ctx), d.syncContexts(ctx)); err != nil {
				again = time.After(recheck)
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			case <-again:
			}
		}
	}()
}

// halt stops the controller, as if its process had ended.
func (d *driver) halt() {
	d.stop()
	<-d.ended
}

// list returns all objects of the namespace, sorted by name.
func (d *driver) list(ctx context.Context, resource string) ([]unstructured.Unstructured, error) {
	list, err := d.resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource, err)
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int {
		return slices.Compare([]string{a.GetName()}, []string{b.GetName()})
	})
	return list.Items, nil
}

// isOurs reports whether this driver allocates a claim.
func (d *driver) isOurs(claim *unstructured.Unstructured) bool {
	if tested.claims == api.V1alpha2 {
		return text(claim, "spec", "resourceClassName") == d.class
	}
	return text(claim, "spec", "controller") == d.name
}

func (d *driver) finalizer() string { return d.name + "/deletion-protection" }

// text returns a field of an object, "" if it is not there.
func text(object *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(object.Object, path...)
	return value
}

// isSet reports whether an object has a field with something else than false.
func isSet(object *unstructured.Unstructured, path ...string) bool {
	value, found, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
	return found && value != nil && value != false
}

// onlyClassic skips tests of what other releases do not have.
func onlyClassic(t *testing.T) {
	t.Helper()
	if !tested.classic {
		t.Skip("in this release, controllers of drivers cannot allocate claims")
	}
}
