package catalogue

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// badInputScenarios show requests that can never be satisfied, and that they do not affect other pods.
func badInputScenarios() []scenario.Scenario {
	return []scenario.Scenario{impossibleCounts(), brokenClaimSelector(), brokenClassSelector(), refusedByTheAPI()}
}

func impossibleCounts() scenario.Scenario {
	const name = "impossible-counts"
	request := func(request string, count int64) *builder.RequestBuilder { return gpus(count).Named(request) }
	pod := func(title string) runtime.Object {
		return builder.AppPod(title, title, onNodesOf(name, builder.Uses(title)))
	}
	large := scenario.NodeName(name, 2)
	return scenario.Scenario{
		Name:    name,
		Shows:   "More devices than any node has, and more than one claim can hold (32); only the first can be helped by a larger node, and a modest pod is not in the way.",
		Cluster: gpuNodes(name, 2, 8),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("twelve", request("gpu", 12)).Obj(),
				builder.Claim("forty", request("gpu", 40)).Obj(),
				builder.Claim("twice-twenty", request("first", 20), request("second", 20)).Obj(),
				builder.Claim("eight", request("gpu", 8)).Obj(),
				pod("twelve"), pod("forty"), pod("twice-twenty"), pod("eight"),
			),
			scenario.Expect(
				scenario.Waits("twelve", 1, scenario.Reason{Cause: tooFewDevices, Claim: "twelve", Request: "gpu"}),
				scenario.Waits("forty", 1, scenario.Reason{Cause: tooManyDevices, Claim: "forty", Request: "gpu"}),
				scenario.Waits("twice-twenty", 1, scenario.Reason{Cause: tooManyDevices, Claim: "twice-twenty", Request: "second"}),
				scenario.Scheduled("eight", 1, scenario.DevicesEach(8)),
			),
			scenario.Create(
				fleet.Node(large, name, nil),
				fleet.LocalSlice(fleet.GPUDriver, large, fleet.PlainGPUs(large, 0, 12)...).Obj(),
			),
			scenario.Expect(scenario.Scheduled("twelve", 1, scenario.DevicesEach(12), scenario.OnNodes(large))),
		},
	}
}

// noSuchAttribute compiles, but fails for a device without the attribute; a careful author would first check that it
// exists.
func noSuchAttribute() string { return gpuAttribute("noSuchAttribute") + " == 1" }

func brokenClaimSelector() scenario.Scenario {
	const name = "broken-claim-selector"
	return scenario.Scenario{
		Name:    name,
		Shows:   "The selector of one claim fails at run time: its pod waits, those beside it run.",
		Cluster: gpuNodes(name, 1, 4),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("broken", gpus(1, noSuchAttribute())).Obj(),
				builder.Claim("sound", gpus(1)).Template(),
				builder.AppPod("broken", "broken", onNodesOf(name, builder.Uses("broken"))),
			),
			scenario.Expect(scenario.Waits("broken", 1, scenario.Reason{
				Cause: celFails, Claim: "broken", Request: "gpu", Mentions: []string{"noSuchAttribute"},
			})),
			scenario.Create(builder.Deployment("sound", 3, onNodesOf(name, builder.FromTemplate("sound")))),
			scenario.Expect(scenario.Scheduled("sound", 3, scenario.NoDeviceTwice())),
		},
	}
}

func brokenClassSelector() scenario.Scenario {
	const name, broken = "broken-class-selector", "gpu-broken"
	return scenario.Scenario{
		Name:  name,
		Shows: "The selector of one class fails at run time: pods of that class wait, those of others run.",
		Cluster: append(gpuNodes(name, 1, 4),
			builder.Class(broken, builder.OfDriver(fleet.GPUDriver), noSuchAttribute())),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("broken", builder.Request("gpu", broken)).Template(),
				builder.Claim("sound", gpus(1)).Template(),
				builder.Deployment("broken", 2, onNodesOf(name, builder.FromTemplate("broken"))),
				builder.Deployment("sound", 3, onNodesOf(name, builder.FromTemplate("sound"))),
			),
			scenario.Expect(
				scenario.Waits("broken", 2, scenario.Reason{
					Cause: celFails, Mentions: []string{broken, "noSuchAttribute"},
				}),
				scenario.Scheduled("sound", 3, scenario.NoDeviceTwice()),
			),
		},
	}
}

func refusedByTheAPI() scenario.Scenario {
	const name = "refused"
	admin := builder.Request("gpu", gpuClass).All().Admin()
	return scenario.Scenario{
		Name:    name,
		Shows:   "What the API server itself refuses never reaches the scheduler; the next claim is allocated.",
		Cluster: gpuNodes(name, 1, 1),
		Steps: []scenario.Step{
			scenario.Refused(builder.Claim("negative", gpus(-1)).Obj(), "count"),
			scenario.Refused(builder.Claim("no-cel", gpus(1, "device.driver ==")).Obj(), "expression"),
			scenario.Refused(builder.Claim("not-boolean", gpus(1, "device.driver")).Obj(), "bool"),
			scenario.Refused(builder.Claim("no-admin", admin).Obj(), "admin access"),
			scenario.Refused(fleet.LocalSlice(fleet.GPUDriver, "nowhere",
				fleet.PlainGPU("nowhere", 0), fleet.PlainGPU("nowhere", 0)).Obj(), "Duplicate"),
			scenario.Create(
				// 0 is not refused: it means that the field is unset.
				builder.Claim("zero", gpus(0)).Obj(),
				builder.AppPod("zero", "zero", onNodesOf(name, builder.Uses("zero"))),
			),
			scenario.Expect(scenario.Scheduled("zero", 1, scenario.DevicesEach(1))),
		},
	}
}
