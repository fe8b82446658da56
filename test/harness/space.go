package harness

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// adminAccessLabels on a namespace permit admin access (KEP-5018): the first since 1.34, the
// second in 1.33. 1.32 needs none.
var adminAccessLabels = map[string]string{"resource.kubernetes.io/admin-access": "true", "resource.k8s.io/admin-access": "true"}

// Space is the part of the cluster that belongs to one test. Its methods end the
// test if something fails that has to succeed.
type Space struct {
	T       *testing.T
	Cluster *Cluster
	// Name is the name of the namespace and of the device class, the value of the
	// node label that the pods select, and the prefix of the names of all nodes
	// and of the driver. It is unique and not part of another space's name.
	Name string
	// Driver is the only driver with devices in the class.
	Driver string
	// Profile is the schedulerName of the pods.
	Profile string
	// Log is the path of the scheduler's log; "" if there is none.
	Log string
	// Unchecked is set by tests of schedulers that violate the invariants; the space is not checked then.
	Unchecked bool
	// mayWait maps pods that may wait at the end although they would fit to the reasons.
	mayWait map[string]string
	// Patience is the time limit for anything that has to happen.
	Patience time.Duration
	// told is set once the details of a failure are logged. Only the test's goroutine uses it.
	told bool
}

// NewSpace makes a space with nodes without devices. profile is the schedulerName of
// its pods; if it is empty, the name of the space is used. CheckSettled must pass at
// the end of the test.
func (c *Cluster) NewSpace(t *testing.T, name, profile string, nodes int) *Space {
	t.Helper()
	s := c.NewBareSpace(t, name, profile, nodes)
	s.Create(builder.Class(s.Name, builder.OfDriver(s.Driver)))
	return s
}

// NewBareSpace is NewSpace without the class.
func (c *Cluster) NewBareSpace(t *testing.T, name, profile string, nodes int) *Space {
	t.Helper()
	s := &Space{T: t, Cluster: c, Name: c.names.unique("t-" + name), Profile: profile, Patience: Patience}
	if s.Profile == "" {
		s.Profile = s.Name
	}
	s.Driver = s.Name + ".example.com"
	s.CreateNamespace()
	for i := range nodes {
		s.AddNode(i, nil)
	}
	t.Cleanup(func() {
		s.CheckSettled()
		s.tellIfFailed()
	})
	return s
}

// CreateNamespace creates the namespace of the space and waits until pods can be
// created in it. NewSpace calls it; tests call it only if they delete the namespace.
func (s *Space) CreateNamespace() {
	s.T.Helper()
	_, err := s.Cluster.Client.CoreV1().Namespaces().Create(s.T.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: maps.Clone(adminAccessLabels)},
	}, metav1.CreateOptions{})
	require.NoError(s.T, err)
	ctx, cancel := context.WithTimeout(s.T.Context(), Patience)
	defer cancel()
	require.NoError(s.T, scenario.DefaultAccounts(s.Cluster.Client)(ctx, []string{s.Name}))
}

// Node returns the name of node i; the first one is 0.
func (s *Space) Node(i int) string { return fmt.Sprintf("%s-%d", s.Name, i) }

// uniqueNames holds the names in use. The zero value has none.
type uniqueNames struct {
	mutex sync.Mutex
	used  map[string]int
}

// unique returns the name, with a prefix if a test runs again (go test -count).
func (n *uniqueNames) unique(name string) string {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.used == nil {
		n.used = make(map[string]int)
	}
	n.used[name]++
	if run := n.used[name]; run > 1 {
		return fmt.Sprintf("r%d-%s", run, name)
	}
	return name
}

// AddNode creates a simulated node with additional labels.
func (s *Space) AddNode(i int, labels map[string]string) {
	s.T.Helper()
	s.Create(fleet.Node(s.Node(i), s.Name, labels))
}

// Create creates objects; namespaced ones in the namespace of the space.
func (s *Space) Create(objects ...runtime.Object) {
	s.T.Helper()
	for _, object := range objects {
		require.NoError(s.T, s.Cluster.create(s.T.Context(), s.Name, object))
	}
}

// Delete deletes objects and does not wait for finalizers.
func (s *Space) Delete(objects ...runtime.Object) {
	s.T.Helper()
	for _, object := range objects {
		require.NoError(s.T, s.Cluster.delete(s.T.Context(), s.Name, object))
	}
}

// DeletePod deletes a pod by name.
func (s *Space) DeletePod(name string) {
	s.T.Helper()
	require.NoError(s.T, s.Cluster.Client.CoreV1().Pods(s.Name).Delete(s.T.Context(), name, metav1.DeleteOptions{}))
}

// Devices publishes devices that are local to a node. The pool and the slice
// are named after the node.
func (s *Space) Devices(node int, devices ...*builder.DeviceBuilder) {
	s.T.Helper()
	s.Create(s.Slice(node, devices...).Obj())
}

// Slice returns the builder of the slice that Devices publishes.
func (s *Space) Slice(node int, devices ...*builder.DeviceBuilder) *builder.SliceBuilder {
	return builder.NodeSlice(s.Node(node), devices...).OfDriver(s.Driver)
}
