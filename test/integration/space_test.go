package integration

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/pkg/builder"
	"github.com/quartermaster-dra/quartermaster/pkg/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/pkg/playground/scenario"
	"github.com/quartermaster-dra/quartermaster/pkg/playground/workload"
)

// adminAccessLabel on a namespace permits admin access (KEP-5018).
const adminAccessLabel = "resource.kubernetes.io/admin-access"

// space is the part of the cluster that belongs to one test.
type space struct {
	t *testing.T
	// name is that of the namespace and of the device class, the value of the
	// node label that the pods select, and the beginning of the names of all
	// nodes and of the driver. It is unique and not part of another's name.
	name string
	// driver is the only one whose devices are in the class.
	driver string
	// profile is the schedulerName of the pods.
	profile string
	// log is the scheduler's log; "" if there is none.
	log string
}

// newSpace makes a space with nodes without devices, for pods of the shared scheduler.
func newSpace(t *testing.T, name string, nodes int) *space {
	t.Helper()
	scheduler := sharedScheduler(t)
	s := newSpaceFor(t, name, nodes, scheduler.profile)
	s.log = scheduler.process.LogFile()
	return s
}

// newOwnSpace makes a space for pods of a scheduler that the test starts itself,
// see startOwnScheduler: their schedulerName is the name of the space.
func newOwnSpace(t *testing.T, name string, nodes int) *space {
	t.Helper()
	return newSpaceFor(t, name, nodes, "")
}

// newSpaceFor makes a space for pods with any schedulerName.
func newSpaceFor(t *testing.T, name string, nodes int, profile string) *space {
	t.Helper()
	s := &space{t: t, name: uniqueName("t-" + name), profile: profile}
	if s.profile == "" {
		s.profile = s.name
	}
	s.driver = s.name + ".example.com"
	_, err := cluster.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: map[string]string{adminAccessLabel: "true"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	for i := range nodes {
		s.addNode(i, nil)
	}
	s.create(workload.Class(s.name, workload.OfDriver(s.driver)))
	require.NoError(t, scenario.DefaultAccounts(cluster.client)(t.Context(), []string{s.name}))
	t.Cleanup(s.checkSettled)
	return s
}

// node is the name of a node, from 0 on.
func (s *space) node(i int) string { return fmt.Sprintf("%s-%d", s.name, i) }

var spaceNames struct {
	sync.Mutex
	used map[string]int
}

// uniqueName is the name itself unless a test runs again (go test -count).
func uniqueName(name string) string {
	spaceNames.Lock()
	defer spaceNames.Unlock()
	if spaceNames.used == nil {
		spaceNames.used = make(map[string]int)
	}
	spaceNames.used[name]++
	if run := spaceNames.used[name]; run > 1 {
		return fmt.Sprintf("r%d-%s", run, name)
	}
	return name
}

// addNode creates a simulated node with additional labels.
func (s *space) addNode(i int, labels map[string]string) {
	s.t.Helper()
	s.create(fleet.Node(s.node(i), s.name, labels))
}

// create creates objects; namespaced ones in the namespace of the space.
func (s *space) create(objects ...runtime.Object) {
	s.t.Helper()
	for _, object := range objects {
		require.NoError(s.t, cluster.objects.Create(s.t.Context(), s.name, object))
	}
}

// delete deletes objects and does not wait for finalizers.
func (s *space) delete(objects ...runtime.Object) {
	s.t.Helper()
	for _, object := range objects {
		require.NoError(s.t, cluster.objects.Delete(s.t.Context(), s.name, object))
	}
}

// deletePod deletes a pod by name.
func (s *space) deletePod(name string) {
	s.t.Helper()
	require.NoError(s.t, cluster.client.CoreV1().Pods(s.name).Delete(s.t.Context(), name, metav1.DeleteOptions{}))
}

// devices publishes devices that are local to a node. The pool and the slice
// are named after the node.
func (s *space) devices(node int, devices ...*builder.DeviceBuilder) {
	s.t.Helper()
	s.create(s.slice(node, devices...).Obj())
}

// slice starts the slice that devices publishes.
func (s *space) slice(node int, devices ...*builder.DeviceBuilder) *builder.SliceBuilder {
	return builder.NodeSlice(s.node(node), devices...).OfDriver(s.driver)
}

// numbered makes plain devices "gpu-0", "gpu-1" and so on, whose attribute "index"
// is their number.
func numbered(count int) []*builder.DeviceBuilder {
	devices := builder.NumberedDevices("gpu", count)
	for i, device := range devices {
		device.Attr("index", i)
	}
	return devices
}

// want asks for devices of the space's class.
func (s *space) want(count int64, where ...string) workload.Devices {
	return workload.Devices{Class: s.name, Count: count, Where: where}
}

// wantAll asks for all devices of the space's class.
func (s *space) wantAll(where ...string) workload.Devices {
	return workload.Devices{Class: s.name, All: true, Where: where}
}

// attribute is the CEL expression of a device attribute.
func (s *space) attribute(name string) string {
	return fmt.Sprintf("device.attributes[%q].%s", s.driver, name)
}

// one makes a claim for devices, in a request "gpu".
func one(name string, devices workload.Devices) *resourceapi.ResourceClaim {
	return workload.Claim(name, workload.Request("gpu", devices))
}

// uses are existing claims, each under its own name.
func uses(claims ...string) []workload.Use {
	var result []workload.Use
	for _, claim := range claims {
		result = append(result, workload.Use{As: claim, Claim: claim})
	}
	return result
}

// fromTemplate is a claim generated from a template, under the template's name.
func fromTemplate(template string) []workload.Use {
	return []workload.Use{{As: template, Template: template}}
}

// pod makes a pod that runs on the nodes of the space only.
func (s *space) pod(name string, uses []workload.Use) *corev1.Pod {
	return s.podOn(name, map[string]string{fleet.NodePoolLabel: s.name}, uses)
}

// podOnNode makes a pod that runs on one node only.
func (s *space) podOnNode(name string, node int, uses []workload.Use) *corev1.Pod {
	return s.podOn(name, map[string]string{corev1.LabelHostname: s.node(node)}, uses)
}

func (s *space) podOn(name string, nodeSelector map[string]string, uses []workload.Use) *corev1.Pod {
	pod := workload.Pod(name, name, workload.PodOptions{NodeSelector: nodeSelector, Uses: uses})
	pod.Spec.SchedulerName = s.profile
	return pod
}

// claimAndPod makes a claim for devices and a pod of the same name that uses it.
func (s *space) claimAndPod(name string, devices workload.Devices) {
	s.t.Helper()
	s.create(one(name, devices), s.pod(name, uses(name)))
}
