package groups

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// domainGates are those of the schedulers that place gangs in domains.
var domainGates = func() map[string]bool {
	all := maps.Clone(gates)
	all["TopologyAwareWorkloadScheduling"] = true
	return all
}()

// placing is the scheduler that most tests of domains use, as manifests/gang-scheduling configures it.
var placing harness.SharedScheduler

// domainSpace is the part of the cluster that belongs to one test, with a device template "one".
type domainSpace struct {
	*space
	nodes int
	// priority is the priority class of the members of gangs that are created from now on.
	priority string
}

// newDomainSpace makes a space without nodes, for pods of the scheduler that places gangs in domains.
func newDomainSpace(t *testing.T, name string) *domainSpace {
	t.Helper()
	scheduler := placing.Get(t, cluster, harness.SchedulerOptions{Name: "placing", Profile: "placing", Overlay: manifests.GangScheduling, FeatureGates: domainGates})
	s := &domainSpace{space: &space{cluster.NewSpace(t, name, scheduler.Profile, 0)}}
	s.Log = scheduler.LogFile()
	s.Create(builder.Claim("one", s.Want(1)).Template())
	return s
}

// rack is the label of nodes that tests use. It is the space's own: nodes of others are in no domain.
func (s *domainSpace) rack() string { return "topology.example.com/" + s.Name }

// clique is the attribute of devices that tests use.
func (s *domainSpace) clique() string { return s.Driver + "/clique" }

// node adds a node in a rack with a device for each clique that is named. Devices are called "clique-number".
func (s *domainSpace) node(rack string, cliques ...string) *domainSpace {
	s.T.Helper()
	s.AddNode(s.nodes, map[string]string{s.rack(): rack})
	var devices []*builder.DeviceBuilder
	for i, clique := range cliques {
		devices = append(devices, builder.Device(fmt.Sprintf("%s-%d", clique, i)).Attr("clique", clique))
	}
	if len(devices) > 0 {
		s.Devices(s.nodes, devices...)
	}
	s.nodes++
	return s
}

// The ways to ask for a domain.
func (s *domainSpace) inRack(group *schedulingapi.PodGroup) {
	group.Spec.SchedulingConstraints = &schedulingapi.PodGroupSchedulingConstraints{Topology: []schedulingapi.TopologyConstraint{{Key: s.rack()}}}
}

func requiring(key domain.Key) func(*schedulingapi.PodGroup) {
	return func(group *schedulingapi.PodGroup) {
		group.Annotations = map[string]string{domain.RequiredAnnotation: key.String()}
	}
}

func preferring(key domain.Key) func(*schedulingapi.PodGroup) {
	return func(group *schedulingapi.PodGroup) {
		group.Annotations = map[string]string{domain.PreferredAnnotation: key.String()}
	}
}

// gang creates a gang of pods with claims, template "one" by default, and returns their names.
func (s *domainSpace) gang(name string, pods int, wish func(*schedulingapi.PodGroup), uses ...corev1.PodResourceClaim) []string {
	s.T.Helper()
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
	group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: int32(pods)}
	wish(group)
	s.Create(group)
	var names []string
	for i := range pods {
		names = append(names, fmt.Sprintf("%s-%d", name, i))
		s.member(name, names[i], uses...)
	}
	return names
}

// member creates a pod of a gang, as gang does.
func (s *domainSpace) member(gang, name string, uses ...corev1.PodResourceClaim) {
	s.T.Helper()
	if len(uses) == 0 {
		uses = builder.FromTemplate("one")
	}
	pod := s.Pod(name, uses)
	pod.Spec.PriorityClassName = s.priority
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &gang}
	s.Create(pod)
}

// changeGroup changes the annotations of a group.
func (s *domainSpace) changeGroup(name string, change func(*schedulingapi.PodGroup)) {
	s.T.Helper()
	groups := cluster.Client.SchedulingV1beta1().PodGroups(s.Name)
	require.NoError(s.T, retry.RetryOnConflict(retry.DefaultBackoff, func() error { // The scheduler writes conditions.
		group, err := groups.Get(s.T.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(group)
		_, err = groups.Update(s.T.Context(), group, metav1.UpdateOptions{})
		return err
	}))
}

// cliquesOf counts the devices of pods by their clique.
func (s *domainSpace) cliquesOf(pods []string) map[string]int {
	s.T.Helper()
	counts := make(map[string]int)
	for _, pod := range pods {
		for _, result := range s.Results(pod) {
			var clique string
			var number int
			_, err := fmt.Sscanf(result.Device, "%1s-%d", &clique, &number)
			require.NoError(s.T, err, result.Device)
			counts[clique]++
		}
	}
	return counts
}

// racksOf counts pods by the rack of their node.
func (s *domainSpace) racksOf(pods []string) map[string]int {
	s.T.Helper()
	counts := make(map[string]int)
	for _, pod := range pods {
		node, err := cluster.Client.CoreV1().Nodes().Get(s.T.Context(), s.LivePod(pod).Spec.NodeName, metav1.GetOptions{})
		require.NoError(s.T, err)
		counts[node.Labels[s.rack()]]++
	}
	return counts
}
