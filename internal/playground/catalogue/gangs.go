package catalogue

import (
	"fmt"

	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/playground/scenario"
	"github.com/quartermaster-dra/quartermaster/internal/playground/workload"
)

// FeatureGates are those that scenarios need and that are off by default.
func FeatureGates() map[string]bool {
	return map[string]bool{
		"GenericWorkload":           true, // PodGroups, KEP-4671
		"DRAWorkloadResourceClaims": true, // and their claims, KEP-5729
	}
}

// APIs are the versions of the API that scenarios need and that are off by default.
func APIs() map[string]bool { return map[string]bool{"scheduling.k8s.io/v1beta1": true} }

// gangScenarios show pods that are scheduled together or not at all.
func gangScenarios() []scenario.Scenario {
	return []scenario.Scenario{gangShares(), gangOnFewNodes(), gangMakesDo()}
}

// gang makes a PodGroup of pods that use the same claims; claims of the group are
// reserved for it.
func gang(scenarioName string, pods int, ofGroup []workload.Use, own ...workload.Use) []runtime.Object {
	const name = "gang"
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
	group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: int32(pods)}
	for _, use := range ofGroup {
		group.Spec.ResourceClaims = append(group.Spec.ResourceClaims, schedulingapi.PodGroupResourceClaim{Name: use.As, ResourceClaimName: &use.Claim})
	}
	objects := []runtime.Object{group}
	for index := range pods {
		pod := workload.Pod(fmt.Sprintf("worker-%d", index), "worker", onNodesOf(scenarioName, append(own, ofGroup...)...))
		objects = append(objects, workload.InGroup(pod, name))
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
			scenario.Create(workload.Claim("shared", workload.Request("gpu", gpus(1)))),
			scenario.Create(gang(name, pods, []workload.Use{claimed("shared")})...),
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
			scenario.Create(workload.Template("pair", workload.Request("gpu", gpus(2)))),
			scenario.Create(gang(name, pods, nil, templated("pair"))...),
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
			scenario.Create(workload.Template("some", workload.FirstAvailable("gpu",
				workload.Alternative{Name: "two", Devices: gpus(2)}, workload.Alternative{Name: "one", Devices: gpus(1)}))),
			scenario.Create(gang(name, pods, nil, templated("some"))...),
			scenario.Expect(scenario.Scheduled("worker", pods, scenario.DevicesEach(1), scenario.NoDeviceTwice(), scenario.FromRequest("gpu/one"))),
		},
	}
}
