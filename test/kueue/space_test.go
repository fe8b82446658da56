package kueue

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/catalogue"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
)

const (
	// queue is the name of the LocalQueue of each space. Its ClusterQueue and ResourceFlavor have the space's name.
	queue = "user-queue"
	// extended is the extended resource that devices of the class stand for.
	extended = "example.com/extended-gpu"
	// template is the name of the claim template for one device.
	template = "one"
)

// queues is a LocalQueue with a ClusterQueue of its own: namespace and name, fields of the ClusterQueue, and its quotas.
const queues = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %[1]s}
spec:
  namespaceSelector: {}
  %[2]s
  resourceGroups: %[3]s
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: ` + queue + `, namespace: %[1]s}
spec: {clusterQueue: %[1]s}
`

// flavor is a ResourceFlavor: name, space and more fields.
const flavor = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: %[1]s}
spec:
  nodeLabels: {` + fleet.NodePoolLabel + `: %[2]s}
  %[3]s
`

// space is the part of the cluster that belongs to one test, with a queue.
type space struct{ *harness.Space }

// queueOptions are the differences between a queue and another one.
type queueOptions struct {
	// quota is the number of devices of the queue.
	quota int
	// clusterQueue are more fields of its spec.
	clusterQueue string
	// topology names the Topology of its nodes. apart has the devices in a flavor without it.
	topology string
	apart    bool
}

// newSpace makes a space with nodes that have some devices each, and a queue.
func newSpace(t *testing.T, name string, o queueOptions, devices ...int) *space {
	t.Helper()
	require.NoError(t, manifests.Apply(t.Context(), cluster.ControlPlane.AdminConfig(), manifests.PodGroups, manifests.ApplyOptions{}))
	_, err := cluster.Client.ResourceV1().DeviceClasses().Create(t.Context(), deviceClass(), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	scheduler := shared.Get(t, cluster, harness.SchedulerOptions{Name: "shared", FeatureGates: catalogue.FeatureGates()})
	s := &space{cluster.NewSpace(t, name, scheduler.Profile, len(devices))}
	s.Log = scheduler.LogFile()
	for node, count := range devices {
		if count > 0 {
			s.Devices(node, harness.Numbered(count)...)
		}
	}
	s.Create(builder.Claim(template, want(1)).Template())
	s.queue(o)
	s.Known()
	return s
}

// queue creates the queue of the space.
func (s *space) queue(o queueOptions) {
	s.T.Helper()
	more := ""
	if o.topology != "" {
		more = "topologyName: " + o.topology
	}
	quota := func(name string, quota int) string { return fmt.Sprintf("{name: %s, nominalQuota: %d}", name, quota) }
	group := func(flavor, covered, quotas string) string {
		return fmt.Sprintf("{coveredResources: [%s], flavors: [{name: %s, resources: [%s]}]}", covered, flavor, quotas)
	}
	cpu, devices := quota("cpu", 100), quota(quotaName, o.quota)
	groups := group(s.Name, "cpu, "+quotaName, cpu+", "+devices)
	apply(s.T, fmt.Appendf(nil, flavor, s.Name, s.Name, more))
	if o.apart {
		groups = group(s.Name, "cpu", cpu) + ", " + group(s.Name+"-devices", quotaName, devices)
		apply(s.T, fmt.Appendf(nil, flavor, s.Name+"-devices", s.Name, ""))
	}
	apply(s.T, fmt.Appendf(nil, queues, s.Name, o.clusterQueue, "["+groups+"]"))
}

// deviceClass is the class that Kueue knows.
func deviceClass() *resourceapi.DeviceClass {
	made := builder.Class(class, `device.driver.endsWith(".example.com")`)
	made.Spec.ExtendedResourceName = ptr.To(extended)
	return builder.Unsaved("", made)
}

// want asks for devices of the class that Kueue knows.
func want(count int64) *builder.RequestBuilder { return builder.Request("gpu", class).Count(count) }

// outsider creates a pod without a queue that uses a claim of its own for some devices, and waits until it runs.
func (s *space) outsider(name string, count int64, edits ...func(*corev1.Pod)) {
	s.T.Helper()
	pod := s.Pod(name, builder.Uses(name))
	for _, edit := range edits {
		edit(pod)
	}
	s.Create(builder.Claim(name, want(count)).Obj(), pod)
	s.Running(name)
}

// onNode has a pod run on one node only.
func (s *space) onNode(node int) func(*corev1.Pod) {
	return builder.OnLabeled(corev1.LabelHostname, s.Node(node))
}

// gone deletes a pod and waits until it has gone.
func (s *space) gone(pod string) {
	s.T.Helper()
	s.DeletePod(pod)
	s.Gone(pod)
}

// devicesOf returns "pool/device" of all devices that pods have, in the order of the pods.
func (s *space) devicesOf(pods []string) (devices []string) {
	s.T.Helper()
	for _, pod := range pods {
		devices = append(devices, s.DeviceNames(pod)...)
	}
	return devices
}

// containsAll returns the first text that is not in another one, "" if all are.
func containsAll(text string, parts []string) string {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return part
		}
	}
	return ""
}
