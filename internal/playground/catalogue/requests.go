package catalogue

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/internal/playground/scenario"
	"github.com/quartermaster-dra/quartermaster/internal/playground/workload"
)

// requestScenarios show how many devices a request gets.
func requestScenarios() []scenario.Scenario {
	return []scenario.Scenario{exactCount(), fullNodes(), allDevices(), allMatchingDevices(), firstAvailable(), firstAvailableScored()}
}

func exactCount() scenario.Scenario {
	const name = "exact-count"
	var objects []runtime.Object
	var expected []scenario.Expectation
	for _, count := range []int{1, 2, 4} {
		title := fmt.Sprintf("gpus-%d", count)
		objects = append(objects,
			workload.Claim(title, workload.Request("gpu", gpus(int64(count)))),
			workload.Pod(title, title, onNodesOf(name, claimed(title))))
		expected = append(expected, scenario.Scheduled(title, 1, scenario.DevicesEach(count), scenario.FromRequest("gpu")))
	}
	return scenario.Scenario{
		Name:    name,
		Shows:   "A request gets exactly as many devices as it asks for, and waits if fewer are free.",
		Cluster: gpuNodes(name, 1, 8),
		Steps: []scenario.Step{
			scenario.Create(objects...),
			scenario.Expect(expected...),
			scenario.Create(
				workload.Claim("two-more", workload.Request("gpu", gpus(2))),
				workload.Claim("one-more", workload.Request("gpu", gpus(1))),
				workload.Pod("two-more", "two-more", onNodesOf(name, claimed("two-more"))),
			),
			scenario.Expect(scenario.Waits("two-more", 1, scenario.Reason{Cause: devicesHeld, Claim: "two-more", Request: "gpu"})),
			scenario.Create(workload.Pod("one-more", "one-more", onNodesOf(name, claimed("one-more")))),
			scenario.Expect(scenario.Scheduled("one-more", 1, scenario.DevicesEach(1))),
		},
	}
}

func fullNodes() scenario.Scenario {
	const name, replicas = "full-nodes", 16
	return scenario.Scenario{
		Name:    name,
		Shows:   "Sixteen pods use up four nodes of eight GPUs, two each; the next pod waits.",
		Cluster: gpuNodes(name, 4, 8),
		Steps: []scenario.Step{
			scenario.Create(
				workload.Template("pair", workload.Request("gpu", gpus(2))),
				workload.Deployment("worker", replicas, onNodesOf(name, templated("pair"))),
			),
			scenario.Expect(scenario.Scheduled("worker", replicas,
				scenario.DevicesEach(2), scenario.NoDeviceTwice(), scenario.Running())),
			scenario.Create(workload.Pod("late", "late", onNodesOf(name, templated("pair")))),
			scenario.Expect(scenario.Waits("late", 1, scenario.Reason{Cause: devicesHeld, Entry: "pair", Request: "gpu"})),
		},
	}
}

func allDevices() scenario.Scenario {
	const name = "all-devices"
	busy, free := scenario.NodeName(name, 0), scenario.NodeName(name, 1)
	all := workload.Request("gpu", workload.Devices{Class: gpuClass, All: true})
	return scenario.Scenario{
		Name:    name,
		Shows:   "A request for all devices of a node needs a node where all of them are free.",
		Cluster: gpuNodes(name, 2, 4),
		Steps: []scenario.Step{
			scenario.Create(
				workload.Claim("one", workload.Request("gpu", gpus(1))),
				workload.Pod("one", "one", onNode(busy, claimed("one"))),
			),
			scenario.Expect(scenario.Scheduled("one", 1)),
			scenario.Create(
				workload.Claim("all", all),
				workload.Pod("all", "all", onNodesOf(name, claimed("all"))),
			),
			scenario.Expect(scenario.Scheduled("all", 1, scenario.DevicesEach(4), scenario.OnNodes(free))),
			scenario.Create(
				workload.Claim("all-again", all),
				workload.Pod("all-again", "all-again", onNodesOf(name, claimed("all-again"))),
			),
			scenario.Expect(scenario.Waits("all-again", 1, scenario.Reason{Cause: notAllFree, Claim: "all-again", Request: "gpu"})),
		},
	}
}

func allMatchingDevices() scenario.Scenario {
	const name = "all-matching"
	onNUMANode := func(numaNode string) workload.ClaimPart {
		return workload.Request("gpu", workload.Devices{
			Class: gpuClass, All: true, Where: []string{gpuAttribute("numaNode") + " == " + numaNode},
		})
	}
	return scenario.Scenario{
		Name:    name,
		Shows:   "All devices means all that match: here those of one NUMA node each.",
		Cluster: gpuNodes(name, 1, 8),
		Steps: []scenario.Step{
			scenario.Create(
				workload.Claim("numa-0", onNUMANode("0")), workload.Claim("numa-1", onNUMANode("1")),
				workload.Claim("numa-2", onNUMANode("2")),
				workload.Pod("numa-0", "numa-0", onNodesOf(name, claimed("numa-0"))),
				workload.Pod("numa-1", "numa-1", onNodesOf(name, claimed("numa-1"))),
				workload.Pod("numa-2", "numa-2", onNodesOf(name, claimed("numa-2"))),
			),
			scenario.Expect(
				scenario.Scheduled("numa-0", 1, scenario.DeviceNames("gpu-0", "gpu-1", "gpu-2", "gpu-3")),
				scenario.Scheduled("numa-1", 1, scenario.DeviceNames("gpu-4", "gpu-5", "gpu-6", "gpu-7")),
				scenario.Waits("numa-2", 1, scenario.Reason{Cause: noDeviceMatches, Claim: "numa-2", Request: "gpu"}),
			),
		},
	}
}

// preferLarge asks for one large GPU, or else for two small ones.
func preferLarge() workload.ClaimPart {
	return workload.FirstAvailable("gpu",
		workload.Alternative{Name: "large", Devices: gpus(1, gpuAttribute("model")+` == "`+fleet.LargeGPU+`"`)},
		workload.Alternative{Name: "small", Devices: gpus(2, gpuAttribute("model")+` == "`+fleet.SmallGPU+`"`)},
	)
}

func firstAvailable() scenario.Scenario {
	const name = "first-available"
	node := scenario.NodeName(name, 0)
	devices := append(fleet.PlainGPUs(node, 0, 2), fleet.SmallPlainGPUs(node, 2, 4)...)
	pod := func(app string, number int) runtime.Object {
		return workload.Pod(fmt.Sprintf("%s-%d", app, number), app, onNodesOf(name, templated("flexible")))
	}
	return scenario.Scenario{
		Name:    name,
		Shows:   "A pod takes one large GPU while there are any, then two small ones, then it waits.",
		Cluster: append(scenario.Nodes(name, 1), fleet.LocalSlice(fleet.GPUDriver, node, devices...)),
		Steps: []scenario.Step{
			scenario.Create(workload.Template("flexible", preferLarge()), pod("preferred", 0), pod("preferred", 1)),
			scenario.Expect(scenario.Scheduled("preferred", 2, scenario.FromRequest("gpu/large"), scenario.DevicesEach(1))),
			scenario.Create(pod("fallback", 0), pod("fallback", 1)),
			scenario.Expect(scenario.Scheduled("fallback", 2, scenario.FromRequest("gpu/small"), scenario.DevicesEach(2))),
			scenario.Create(pod("nothing", 0)),
			scenario.Expect(scenario.Waits("nothing", 1, scenario.Reason{Cause: noAlternativeFits, Entry: "flexible", Request: "gpu"})),
		},
	}
}

func firstAvailableScored() scenario.Scenario {
	const name = "preferred-node"
	smallOnly, large := scenario.NodeName(name, 0), scenario.NodeName(name, 1)
	return scenario.Scenario{
		Name:  name,
		Shows: "Of two nodes the one is chosen that offers the alternative which the request prefers.",
		Cluster: append(scenario.Nodes(name, 2),
			fleet.LocalSlice(fleet.GPUDriver, smallOnly, fleet.SmallPlainGPUs(smallOnly, 0, 8)...),
			fleet.LocalSlice(fleet.GPUDriver, large, fleet.PlainGPUs(large, 0, 2)...)),
		Steps: []scenario.Step{
			scenario.Create(
				workload.Template("flexible", preferLarge()),
				workload.Pod("flexible-0", "flexible", onNodesOf(name, templated("flexible"))),
				workload.Pod("flexible-1", "flexible", onNodesOf(name, templated("flexible"))),
			),
			scenario.Expect(scenario.Scheduled("flexible", 2, scenario.FromRequest("gpu/large"), scenario.OnNodes(large))),
			scenario.Create(
				workload.Pod("next", "next", onNodesOf(name, templated("flexible"))),
			),
			scenario.Expect(scenario.Scheduled("next", 1, scenario.FromRequest("gpu/small"), scenario.OnNodes(smallOnly))),
		},
	}
}
