package groups

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/catalogue"
)

// gates are those of the schedulers that place no gangs in domains: GenericWorkload and
// DRAWorkloadResourceClaims, as in the demo. In the API server, those of the others are on as well.
var gates = catalogue.FeatureGates()

// cluster is what all tests share.
var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{
		Name: "groups",
		ControlPlane: controlplane.Options{
			FeatureGates:  domainGates,
			RuntimeConfig: catalogue.APIs(),
		},
	}, func(c *harness.Cluster) { cluster = c }, shared.Stop, placing.Stop))
}

// shared is the scheduler that most tests use, as manifests/secondary configures it. The
// first test that needs it starts it.
var shared harness.SharedScheduler

func sharedScheduler(t *testing.T) *harness.Scheduler {
	t.Helper()
	return shared.Get(t, cluster, harness.SchedulerOptions{Name: "shared", FeatureGates: gates})
}

// space is the part of the cluster that belongs to one test.
type space struct{ *harness.Space }

// newSpace makes a space with nodes that have a number of devices each, for pods of the
// shared scheduler.
func newSpace(t *testing.T, name string, nodes, devices int) *space {
	t.Helper()
	scheduler := sharedScheduler(t)
	s := newSpaceFor(t, name, scheduler.Profile, nodes, devices)
	s.Log = scheduler.LogFile()
	return s
}

// newOwnSpace makes a space for pods of a scheduler that the test starts itself.
func newOwnSpace(t *testing.T, name string, nodes, devices int) *space {
	t.Helper()
	return newSpaceFor(t, name, "", nodes, devices)
}

func newSpaceFor(t *testing.T, name, profile string, nodes, devices int) *space {
	t.Helper()
	s := &space{cluster.NewSpace(t, name, profile, nodes)}
	for node := range nodes {
		if devices > 0 {
			s.Devices(node, harness.Numbered(devices)...)
		}
	}
	return s
}

// startScheduler starts a scheduler for the space alone.
func (s *space) startScheduler(options harness.SchedulerOptions) *harness.Scheduler {
	s.T.Helper()
	options.FeatureGates = gates
	return s.StartScheduler(options)
}

// group makes a PodGroup of which so many pods have to fit together; with 0, each for
// itself. The claims belong to it.
func group(name string, minCount int32, claims ...corev1.PodResourceClaim) *schedulingapi.PodGroup {
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if minCount > 0 {
		group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: minCount}
	} else {
		group.Spec.SchedulingPolicy.Basic = &schedulingapi.BasicSchedulingPolicy{}
	}
	for _, use := range claims {
		group.Spec.ResourceClaims = append(group.Spec.ResourceClaims, schedulingapi.PodGroupResourceClaim(use))
	}
	return group
}

// join makes pods members of a group.
func join(name string, pods ...*corev1.Pod) []*corev1.Pod {
	for _, pod := range pods {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	}
	return pods
}

// createMembers creates pods of a group that use the same claims, and returns their names.
func (s *space) createMembers(group string, count int, uses []corev1.PodResourceClaim) []string {
	s.T.Helper()
	var names []string
	for i := range count {
		name := fmt.Sprintf("%s-%d", group, i)
		s.createMember(group, s.Pod(name, uses))
		names = append(names, name)
	}
	return names
}

func (s *space) createMember(group string, pod *corev1.Pod) {
	s.T.Helper()
	s.Create(join(group, pod)[0])
}

// podGroup reads a group.
func (s *space) podGroup(name string) *schedulingapi.PodGroup {
	s.T.Helper()
	group, err := cluster.Client.SchedulingV1beta1().PodGroups(s.Name).Get(s.T.Context(), name, metav1.GetOptions{})
	require.NoError(s.T, err)
	return group
}

// deletePodGroup deletes a group. It goes away when none of its pods is left.
func (s *space) deletePodGroup(name string) {
	s.T.Helper()
	require.NoError(s.T, cluster.Client.SchedulingV1beta1().PodGroups(s.Name).Delete(s.T.Context(), name, metav1.DeleteOptions{}))
}

// consumers are the names of those for whom a claim is reserved, with their resource.
func (s *space) consumers(claim string) []string {
	s.T.Helper()
	var names []string
	for _, consumer := range s.LiveClaim(claim).Status.ReservedFor {
		names = append(names, consumer.Resource+"/"+consumer.Name)
	}
	return names
}

// nothingAllocated waits until none of the claims is allocated or reserved.
func (s *space) nothingAllocated(claims ...string) {
	s.T.Helper()
	s.Eventually("release "+strings.Join(claims, ", "), func(context.Context) error {
		for _, name := range claims {
			claim, err := s.KnownClaim(name)
			if err != nil {
				return err
			}
			if claim.Status.Allocation != nil || len(claim.Status.ReservedFor) > 0 {
				return fmt.Errorf("claim %s is allocated: %t, reserved for %v", name, claim.Status.Allocation != nil, claim.Status.ReservedFor)
			}
		}
		return nil
	})
}

// allocateOn gives a device to a claim and reserves it, as a scheduler would.
func (s *space) allocateOn(claim string, node int, device string, consumers ...resourceapi.ResourceClaimConsumerReference) {
	s.T.Helper()
	s.Protect(claim)
	s.UpdateClaimStatus(claim, func(c *resourceapi.ResourceClaim) {
		c.Status.ReservedFor = consumers
		c.Status.Allocation = &resourceapi.AllocationResult{
			NodeSelector: builder.NodeSelector(corev1.LabelHostname, s.Node(node)),
			Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: "gpu", Driver: s.Driver, Pool: s.Node(node), Device: device},
			}},
		}
	})
}
