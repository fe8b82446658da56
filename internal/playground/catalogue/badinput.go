package catalogue

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/internal/playground/scenario"
	"github.com/quartermaster-dra/quartermaster/internal/playground/workload"
)

// badInputScenarios show requests that can never be served, and that they are
// in nobody's way.
func badInputScenarios() []scenario.Scenario {
	return []scenario.Scenario{impossibleCounts(), brokenClaimSelector(), brokenClassSelector(), refusedByTheAPI()}
}

func impossibleCounts() scenario.Scenario {
	const name = "impossible-counts"
	request := func(request string, count int64) workload.ClaimPart { return workload.Request(request, gpus(count)) }
	pod := func(title string) runtime.Object {
		return workload.Pod(title, title, onNodesOf(name, claimed(title)))
	}
	return scenario.Scenario{
		Name:    name,
		Shows:   "More devices than any node has, and more than one claim can hold (32); a modest pod is not in the way.",
		Cluster: gpuNodes(name, 2, 8),
		Steps: []scenario.Step{
			scenario.Create(
				workload.Claim("twelve", request("gpu", 12)),
				workload.Claim("forty", request("gpu", 40)),
				workload.Claim("twice-twenty", request("first", 20), request("second", 20)),
				workload.Claim("eight", request("gpu", 8)),
				pod("twelve"), pod("forty"), pod("twice-twenty"), pod("eight"),
			),
			scenario.Expect(
				scenario.Waits("twelve", 1, scenario.Reason{Cause: tooFewDevices, Claim: "twelve", Request: "gpu"}),
				scenario.Waits("forty", 1, scenario.Reason{Cause: tooManyDevices, Claim: "forty", Request: "gpu"}),
				scenario.Waits("twice-twenty", 1, scenario.Reason{Cause: tooManyDevices, Claim: "twice-twenty", Request: "second"}),
				scenario.Scheduled("eight", 1, scenario.DevicesEach(8)),
			),
		},
	}
}

// noSuchAttribute compiles, and fails for a device without the attribute, which
// a careful author would have asked for first.
func noSuchAttribute() string { return gpuAttribute("noSuchAttribute") + " == 1" }

func brokenClaimSelector() scenario.Scenario {
	const name = "broken-claim-selector"
	return scenario.Scenario{
		Name:    name,
		Shows:   "The selector of one claim fails at run time: its pod waits, those beside it run.",
		Cluster: gpuNodes(name, 1, 4),
		Steps: []scenario.Step{
			scenario.Create(
				workload.Claim("broken", workload.Request("gpu", gpus(1, noSuchAttribute()))),
				workload.Template("sound", workload.Request("gpu", gpus(1))),
				workload.Pod("broken", "broken", onNodesOf(name, claimed("broken"))),
			),
			scenario.Expect(scenario.Waits("broken", 1, scenario.Reason{
				Cause: celFails, Claim: "broken", Request: "gpu", Mentions: []string{"noSuchAttribute"},
			})),
			scenario.Create(workload.Deployment("sound", 3, onNodesOf(name, templated("sound")))),
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
			workload.Class(broken, workload.OfDriver(fleet.GPUDriver), noSuchAttribute())),
		Steps: []scenario.Step{
			scenario.Create(
				workload.Template("broken", workload.Request("gpu", workload.Devices{Class: broken})),
				workload.Template("sound", workload.Request("gpu", gpus(1))),
				workload.Deployment("broken", 2, onNodesOf(name, templated("broken"))),
				workload.Deployment("sound", 3, onNodesOf(name, templated("sound"))),
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
	admin := workload.Devices{Class: gpuClass, All: true, Admin: true}
	return scenario.Scenario{
		Name:    name,
		Shows:   "What the API server itself refuses never reaches the scheduler; the next claim is served.",
		Cluster: gpuNodes(name, 1, 1),
		Steps: []scenario.Step{
			scenario.Refused(workload.Claim("negative", workload.Request("gpu", gpus(-1))), "count"),
			scenario.Refused(workload.Claim("no-cel", workload.Request("gpu", gpus(1, "device.driver =="))), "expression"),
			scenario.Refused(workload.Claim("not-boolean", workload.Request("gpu", gpus(1, "device.driver"))), "bool"),
			scenario.Refused(workload.Claim("no-admin", workload.Request("gpu", admin)), "admin access"),
			scenario.Refused(fleet.LocalSlice(fleet.GPUDriver, "nowhere",
				fleet.PlainGPU("nowhere", 0), fleet.PlainGPU("nowhere", 0)), "Duplicate"),
			scenario.Create(
				// 0 is not refused: it means that the field was left out.
				workload.Claim("zero", workload.Request("gpu", gpus(0))),
				workload.Pod("zero", "zero", onNodesOf(name, claimed("zero"))),
			),
			scenario.Expect(scenario.Scheduled("zero", 1, scenario.DevicesEach(1))),
		},
	}
}
