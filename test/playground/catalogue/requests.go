package catalogue

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// requestScenarios show the number of devices that a request gets.
func requestScenarios() []scenario.Scenario {
	return []scenario.Scenario{exactCount(), fullNodes(), allDevices(), allMatchingDevices(), firstAvailable(), firstAvailableScored()}
}

func exactCount() scenario.Scenario {
	const name = "exact-count"
	var objects []runtime.Object
	var expected []scenario.Expectation
	for _, count := range []int{1, 2} {
		title := fmt.Sprintf("gpus-%d", count)
		objects = append(objects,
			builder.Claim(title, gpus(int64(count))).Obj(),
			builder.AppPod(title, title, onNodesOf(name, builder.Uses(title))))
		expected = append(expected, scenario.Scheduled(title, 1, scenario.DevicesEach(count), scenario.FromRequest("gpu")))
	}
	objects = append(objects,
		builder.Claim("split", gpus(1).Named("few"), gpus(3).Named("many")).Obj(),
		builder.AppPod("split", "split", onNodesOf(name, builder.Uses("split"))))
	expected = append(expected, scenario.Scheduled("split", 1, scenario.ByRequest(map[string]int{"few": 1, "many": 3})))
	return scenario.Scenario{
		Name:    name,
		Shows:   "A request gets exactly as many devices as it asks for, and waits if fewer are free.",
		Cluster: gpuNodes(name, 1, 8),
		Steps: []scenario.Step{
			scenario.Create(objects...),
			scenario.Expect(expected...),
			scenario.Create(
				builder.Claim("two-more", gpus(2)).Obj(),
				builder.Claim("one-more", gpus(1)).Obj(),
				builder.AppPod("two-more", "two-more", onNodesOf(name, builder.Uses("two-more"))),
			),
			scenario.Expect(scenario.Waits("two-more", 1, scenario.Reason{Cause: devicesHeld, Claim: "two-more", Request: "gpu"})),
			scenario.Create(builder.AppPod("one-more", "one-more", onNodesOf(name, builder.Uses("one-more")))),
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
				builder.Claim("pair", gpus(2)).Template(),
				builder.Deployment("worker", replicas, onNodesOf(name, builder.FromTemplate("pair"))),
			),
			scenario.Expect(scenario.Scheduled("worker", replicas,
				scenario.DevicesEach(2), scenario.NoDeviceTwice(), scenario.Running())),
			scenario.Create(builder.AppPod("late", "late", onNodesOf(name, builder.FromTemplate("pair")))),
			scenario.Expect(scenario.Waits("late", 1, scenario.Reason{Cause: devicesHeld, Entry: "pair", Request: "gpu"})),
		},
	}
}

func allDevices() scenario.Scenario {
	const name = "all-devices"
	busy, free := scenario.NodeName(name, 0), scenario.NodeName(name, 1)
	all := builder.Request("gpu", gpuClass).All()
	one := builder.AppPod("one", "one", onNode(busy, builder.Uses("one")))
	return scenario.Scenario{
		Name:    name,
		Shows:   "A request for all devices of a node needs a node where all of them are free.",
		Cluster: gpuNodes(name, 2, 4),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("one", gpus(1)).Obj(),
				one,
			),
			scenario.Expect(scenario.Scheduled("one", 1)),
			scenario.Create(
				builder.Claim("all", all).Obj(),
				builder.AppPod("all", "all", onNodesOf(name, builder.Uses("all"))),
			),
			scenario.Expect(scenario.Scheduled("all", 1, scenario.DevicesEach(4), scenario.OnNodes(free))),
			scenario.Create(
				builder.Claim("all-again", all).Obj(),
				builder.AppPod("all-again", "all-again", onNodesOf(name, builder.Uses("all-again"))),
			),
			scenario.Expect(scenario.Waits("all-again", 1, scenario.Reason{Cause: notAllFree, Claim: "all-again", Request: "gpu"})),
			scenario.Deleted("one"),
			scenario.Delete(one),
			scenario.Expect(scenario.Scheduled("all-again", 1, scenario.DevicesEach(4), scenario.OnNodes(busy))),
		},
	}
}

func allMatchingDevices() scenario.Scenario {
	const name = "all-matching"
	onNUMANode := func(numaNode string) *builder.RequestBuilder {
		return builder.Request("gpu", gpuClass).All().Where(gpuAttribute("numaNode") + " == " + numaNode)
	}
	return scenario.Scenario{
		Name:    name,
		Shows:   "All devices means all that match: here those of one NUMA node each.",
		Cluster: gpuNodes(name, 1, 8),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("numa-0", onNUMANode("0")).Obj(), builder.Claim("numa-1", onNUMANode("1")).Obj(),
				builder.Claim("numa-2", onNUMANode("2")).Obj(),
				builder.AppPod("numa-0", "numa-0", onNodesOf(name, builder.Uses("numa-0"))),
				builder.AppPod("numa-1", "numa-1", onNodesOf(name, builder.Uses("numa-1"))),
				builder.AppPod("numa-2", "numa-2", onNodesOf(name, builder.Uses("numa-2"))),
			),
			scenario.Expect(
				scenario.Scheduled("numa-0", 1, scenario.DeviceNames("gpu-0", "gpu-1", "gpu-2", "gpu-3")),
				scenario.Scheduled("numa-1", 1, scenario.DeviceNames("gpu-4", "gpu-5", "gpu-6", "gpu-7")),
				scenario.Waits("numa-2", 1, scenario.Reason{Cause: noDeviceMatches, Claim: "numa-2", Request: "gpu"}),
			),
		},
	}
}

// preferLarge asks for one large GPU, or otherwise for two small ones.
func preferLarge() *builder.RequestBuilder {
	return builder.FirstAvailable("gpu",
		gpus(1, gpuAttribute("model")+` == "`+fleet.LargeGPU+`"`).Named("large"),
		gpus(2, gpuAttribute("model")+` == "`+fleet.SmallGPU+`"`).Named("small"),
	)
}

func firstAvailable() scenario.Scenario {
	const name = "first-available"
	node := scenario.NodeName(name, 0)
	devices := append(fleet.PlainGPUs(node, 0, 2), fleet.SmallPlainGPUs(node, 2, 4)...)
	pod := func(app string, number int) runtime.Object {
		return builder.AppPod(fmt.Sprintf("%s-%d", app, number), app, onNodesOf(name, builder.FromTemplate("flexible")))
	}
	return scenario.Scenario{
		Name:    name,
		Shows:   "A pod takes one large GPU while there are any, then two small ones; then it waits for either.",
		Cluster: append(scenario.Nodes(name, 1), fleet.LocalSlice(fleet.GPUDriver, node, devices...).Obj()),
		Steps: []scenario.Step{
			scenario.Create(builder.Claim("flexible", preferLarge()).Template(), pod("preferred", 0), pod("preferred", 1)),
			scenario.Expect(scenario.Scheduled("preferred", 2, scenario.FromRequest("gpu/large"), scenario.DevicesEach(1))),
			scenario.Create(pod("fallback", 0), pod("fallback", 1)),
			scenario.Expect(scenario.Scheduled("fallback", 2, scenario.FromRequest("gpu/small"), scenario.DevicesEach(2))),
			scenario.Create(pod("later", 0)),
			scenario.Expect(scenario.Waits("later", 1, scenario.Reason{Cause: noAlternativeFits, Entry: "flexible", Request: "gpu"})),
			scenario.Deleted("preferred"),
			scenario.Delete(pod("preferred", 0), pod("preferred", 1)),
			scenario.Expect(scenario.Scheduled("later", 1, scenario.FromRequest("gpu/large"), scenario.DevicesEach(1))),
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
			fleet.LocalSlice(fleet.GPUDriver, smallOnly, fleet.SmallPlainGPUs(smallOnly, 0, 8)...).Obj(),
			fleet.LocalSlice(fleet.GPUDriver, large, fleet.PlainGPUs(large, 0, 2)...).Obj()),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("flexible", preferLarge()).Template(),
				builder.AppPod("flexible-0", "flexible", onNodesOf(name, builder.FromTemplate("flexible"))),
				builder.AppPod("flexible-1", "flexible", onNodesOf(name, builder.FromTemplate("flexible"))),
			),
			scenario.Expect(scenario.Scheduled("flexible", 2, scenario.FromRequest("gpu/large"), scenario.OnNodes(large))),
			scenario.Create(
				builder.AppPod("next", "next", onNodesOf(name, builder.FromTemplate("flexible"))),
			),
			scenario.Expect(scenario.Scheduled("next", 1, scenario.FromRequest("gpu/small"), scenario.OnNodes(smallOnly))),
		},
	}
}
