package catalogue

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// FeatureGates returns the gates that Gangs needs and that are off by default.
func FeatureGates() map[string]bool {
	return map[string]bool{
		"GenericWorkload":           true, // PodGroups, KEP-4671
		"DRAWorkloadResourceClaims": true, // and their claims, KEP-5729
	}
}

// AllFeatureGates returns the gates that Scenarios needs and that are off by default.
func AllFeatureGates() map[string]bool {
	gates := FeatureGates()
	gates[countsDevices] = true
	return gates
}

// APIs returns the API versions that Gangs needs and that are off by default.
func APIs() map[string]bool { return map[string]bool{"scheduling.k8s.io/v1beta1": true} }

// Gangs returns the scenarios about pods that are scheduled together or not at all. They need FeatureGates and APIs.
func Gangs() []scenario.Scenario {
	return []scenario.Scenario{gangShares(), gangOnFewNodes(), gangMakesDo()}
}

// gang makes a PodGroup of pods that use the same claims; claims of the group are
// reserved for it.
func gang(scenarioName string, pods int, ofGroup, own []corev1.PodResourceClaim) []runtime.Object {
	const name = "gang"
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
	group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: int32(pods)}
	for _, claim := range ofGroup {
		group.Spec.ResourceClaims = append(group.Spec.ResourceClaims, schedulingapi.PodGroupResourceClaim{
			Name: claim.Name, ResourceClaimName: claim.ResourceClaimName,
		})
	}
	objects := []runtime.Object{group}
	for index := range pods {
		objects = append(objects, builder.AppPod(fmt.Sprintf("worker-%d", index), "worker",
			onNodesOf(scenarioName, own, ofGroup), builder.InGroup(name)))
	}
	return objects
}

func gangShares() scenario.Scenario {
	const name, pods = "gang-shares", 4
	return scenario.Scenario{
		Name:    name,
		Shows:   "Four pods of a gang share a claim of their group: it is reserved once, for the group.",
		Cluster: gpuNodes(name, 2, 1),
		Steps: []scenario.Step{
			scenario.Create(builder.Claim("shared", gpus(1)).Obj()),
			scenario.Create(gang(name, pods, builder.Uses("shared"), nil)...),
			scenario.Expect(scenario.Scheduled("worker", pods, scenario.SameDevices(), scenario.ReservedFor(1), scenario.DevicesEach(1))),
		},
	}
}

func gangOnFewNodes() scenario.Scenario {
	const name, pods = "gang-few-nodes", 6
	return scenario.Scenario{
		Name:    name,
		Shows:   "Six pods of a gang, each with two devices of its own, fill two nodes.",
		Cluster: gpuNodes(name, 2, 6),
		Steps: []scenario.Step{
			scenario.Create(builder.Claim("pair", gpus(2)).Template()),
			scenario.Create(gang(name, pods, nil, builder.FromTemplate("pair"))...),
			scenario.Expect(scenario.Scheduled("worker", pods, scenario.DevicesEach(2), scenario.NoDeviceTwice())),
		},
	}
}

func gangMakesDo() scenario.Scenario {
	const name, pods = "gang-makes-do", 3
	return scenario.Scenario{
		Name:    name,
		Shows:   "Each of three pods would like two devices; the node has three, so each pod of the gang gets one.",
		Cluster: gpuNodes(name, 1, 3),
		Steps: []scenario.Step{
			scenario.Create(builder.Claim("some", builder.FirstAvailable("gpu",
				gpus(2).Named("two"), gpus(1).Named("one"))).Template()),
			scenario.Create(gang(name, pods, nil, builder.FromTemplate("some"))...),
			scenario.Expect(scenario.Scheduled("worker", pods, scenario.DevicesEach(1), scenario.NoDeviceTwice(), scenario.FromRequest("gpu/one"))),
		},
	}
}
