package catalogue

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// reachScenarios show devices that more than one node reaches.
func reachScenarios() []scenario.Scenario {
	return []scenario.Scenario{labelledNodes(), allNodes(), perDeviceNodes()}
}

func labelledNodes() scenario.Scenario {
	const name = "labelled-nodes"
	racks := []string{name + "-rack-a", name + "-rack-b"}
	var cluster []runtime.Object
	for index := range 4 {
		rack := racks[index/2]
		cluster = append(cluster, fleet.Node(scenario.NodeName(name, index), name, map[string]string{fleet.RackLabel: rack}))
	}
	// The racks differ in the devices' indices, so that a claim can choose one.
	for number, rack := range racks {
		cluster = append(cluster, fleet.Slice(fleet.FabricDriver, rack,
			fleet.FabricDevices(rack, number*2, 2)...).OnLabeled(fleet.RackLabel, rack).Obj())
	}
	devices := func(count int64, where ...string) *builder.RequestBuilder {
		return builder.Request("accelerator", fleet.FabricDriver).Count(count).Where(where...)
	}
	const inRackB = `device.attributes["` + fleet.FabricDriver + `"].index >= 2`
	return scenario.Scenario{
		Name:    name,
		Shows:   "Network-attached devices of two racks: where a pod can run follows from its devices.",
		Cluster: cluster,
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("rack-b", devices(1, inRackB)).Obj(),
				builder.AppPod("shared-0", "shared", onNodesOf(name, builder.Uses("rack-b"))),
				builder.AppPod("shared-1", "shared", onNodesOf(name, builder.Uses("rack-b"))),
			),
			scenario.Expect(scenario.Scheduled("shared", 2,
				scenario.OnNodes(scenario.NodeName(name, 2), scenario.NodeName(name, 3)),
				scenario.SameDevices(), scenario.ReachableFrom(fleet.RackLabel, racks[1]))),
			scenario.Create(builder.AppPod("outside", "outside", onNode(scenario.NodeName(name, 0), builder.Uses("rack-b")))),
			scenario.Expect(scenario.Waits("outside", 1, scenario.Reason{Cause: notReachable, Claim: "rack-b"})),
			scenario.Create(
				builder.Claim("two", devices(2)).Obj(),
				builder.AppPod("two", "two", onNodesOf(name, builder.Uses("two"))),
			),
			scenario.Expect(scenario.Scheduled("two", 1,
				scenario.OnNodes(scenario.NodeName(name, 0), scenario.NodeName(name, 1)),
				scenario.ReachableFrom(fleet.RackLabel, racks[0]))),
			scenario.Create(
				builder.Claim("two-more", devices(2)).Obj(),
				builder.AppPod("two-more", "two-more", onNodesOf(name, builder.Uses("two-more"))),
			),
			scenario.Expect(scenario.Waits("two-more", 1,
				scenario.Reason{Cause: devicesHeld, Claim: "two-more", Request: "accelerator"})),
		},
	}
}

func allNodes() scenario.Scenario {
	const name, product = "all-nodes", "solver"
	pod := func(app string, number int) runtime.Object {
		return builder.AppPod(fmt.Sprintf("%s-%d", app, number), app, builder.Using(builder.FromTemplate("license")...))
	}
	return scenario.Scenario{
		Name:  name,
		Shows: "Three floating licences that every node of the cluster reaches; the fourth pod waits.",
		Cluster: []runtime.Object{
			fleet.Slice(fleet.LicenseDriver, product, fleet.Licenses(product, 3)...).OnAllNodes().Obj(),
		},
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("license", builder.Request("seat", fleet.LicenseDriver)).Template(),
				pod("licensed", 0), pod("licensed", 1), pod("licensed", 2),
			),
			scenario.Expect(scenario.Scheduled("licensed", 3,
				scenario.NoDeviceTwice(), scenario.ReachableFromAllNodes(), scenario.Running())),
			scenario.Create(pod("unlicensed", 0)),
			scenario.Expect(scenario.Waits("unlicensed", 1,
				scenario.Reason{Cause: devicesHeld, Entry: "license", Request: "seat"})),
		},
	}
}

func perDeviceNodes() scenario.Scenario {
	const name = "per-device-nodes"
	first, second := scenario.NodeName(name, 0), scenario.NodeName(name, 1)
	devices := fleet.FabricDevices(name, 0, 3)
	devices[0].OnNode(first)
	devices[1].OnLabeled(fleet.NodePoolLabel, name)
	devices[2].OnAllNodes()
	withIndex := func(title, index string) runtime.Object {
		return builder.Claim(title, builder.Request("accelerator", fleet.EdgeDriver).Where(`device.attributes["`+fleet.EdgeDriver+`"].index == `+index)).Obj()
	}
	return scenario.Scenario{
		Name:    name,
		Shows:   "One slice whose devices say themselves who reaches them: one node, labelled nodes, everybody.",
		Cluster: append(scenario.Nodes(name, 2), fleet.Slice(fleet.EdgeDriver, name, devices...).PerDevice().Obj()),
		Steps: []scenario.Step{
			scenario.Create(
				withIndex("local", "0"), withIndex("group", "1"), withIndex("anybody", "2"), withIndex("elsewhere", "0"),
				builder.AppPod("elsewhere", "elsewhere", onNode(second, builder.Uses("elsewhere"))),
			),
			scenario.Expect(scenario.Waits("elsewhere", 1, scenario.Reason{Cause: noDeviceMatches, Claim: "elsewhere", Request: "accelerator"})),
			scenario.Create(
				builder.AppPod("local", "local", onNodesOf(name, builder.Uses("local"))),
				builder.AppPod("group", "group", onNodesOf(name, builder.Uses("group"))),
				builder.AppPod("anybody", "anybody", onNodesOf(name, builder.Uses("anybody"))),
			),
			scenario.Expect(
				scenario.Scheduled("local", 1, scenario.OnNodes(first), scenario.ReachableFrom("metadata.name", first)),
				scenario.Scheduled("group", 1, scenario.ReachableFrom(fleet.NodePoolLabel, name)),
				scenario.Scheduled("anybody", 1, scenario.ReachableFromAllNodes()),
			),
		},
	}
}
