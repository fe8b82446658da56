package catalogue

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// badReferenceScenarios show references to missing objects.
func badReferenceScenarios() []scenario.Scenario {
	return []scenario.Scenario{missingClass(), missingClaim(), missingTemplate(), deletedClaim()}
}

func missingClass() scenario.Scenario {
	const name, late, never = "missing-class", "gpu-late", "gpu-never"
	claim := func(title, class string) runtime.Object {
		return builder.Claim(title, builder.Request("gpu", class)).Obj()
	}
	return scenario.Scenario{
		Name:    name,
		Shows:   "A device class does not exist yet; when it is created, the pods that named it run. Others are not held up.",
		Cluster: gpuNodes(name, 1, 3),
		Steps: []scenario.Step{
			scenario.Create(
				claim("late-0", late), claim("late-1", late), claim("never", never),
				builder.AppPod("late-0", "late", onNodesOf(name, builder.Uses("late-0"))),
				builder.AppPod("late-1", "late", onNodesOf(name, builder.Uses("late-1"))),
				builder.AppPod("never", "never", onNodesOf(name, builder.Uses("never"))),
				builder.Claim("beside", gpus(1)).Obj(),
				builder.AppPod("beside", "beside", onNodesOf(name, builder.Uses("beside"))),
			),
			scenario.Expect(
				scenario.Scheduled("beside", 1),
				scenario.Waits("late", 2, scenario.Reason{Cause: classMissing, Claim: "late-", Request: "gpu", Mentions: []string{late}}),
				scenario.Waits("never", 1, scenario.Reason{Cause: classMissing, Claim: "never", Request: "gpu", Mentions: []string{never}}),
			),
			scenario.Create(builder.Class(late, builder.OfDriver(fleet.GPUDriver))),
			scenario.Expect(
				scenario.Scheduled("late", 2, scenario.NoDeviceTwice()),
				scenario.Waits("never", 1, scenario.Reason{Cause: classMissing, Claim: "never", Request: "gpu", Mentions: []string{never}}),
			),
		},
	}
}

func missingClaim() scenario.Scenario {
	const name = "missing-claim"
	return scenario.Scenario{
		Name:    name,
		Shows:   "A claim does not exist yet; when it is created, the pod that named it runs.",
		Cluster: gpuNodes(name, 1, 2),
		Steps: []scenario.Step{
			scenario.Create(
				builder.AppPod("late", "late", onNodesOf(name, builder.Uses("late"))),
				builder.AppPod("never", "never", onNodesOf(name, builder.Uses("never"))),
			),
			scenario.Expect(
				scenario.Waits("late", 1, scenario.Reason{Cause: claimMissing, Claim: "late"}),
				scenario.Waits("never", 1, scenario.Reason{Cause: claimMissing, Claim: "never"}),
			),
			scenario.Create(builder.Claim("late", gpus(1)).Obj()),
			scenario.Expect(
				scenario.Scheduled("late", 1, scenario.DevicesEach(1)),
				scenario.Waits("never", 1, scenario.Reason{Cause: claimMissing, Claim: "never"}),
			),
		},
	}
}

func missingTemplate() scenario.Scenario {
	const name = "missing-template"
	return scenario.Scenario{
		Name:    name,
		Shows:   "A claim template does not exist, so that there is no claim either; other templates work.",
		Cluster: gpuNodes(name, 1, 2),
		Steps: []scenario.Step{
			scenario.Create(
				builder.Claim("present", gpus(1)).Template(),
				builder.Deployment("missing", 2, onNodesOf(name, builder.FromTemplate("no-such-template"))),
				builder.Deployment("present", 2, onNodesOf(name, builder.FromTemplate("present"))),
			),
			scenario.Expect(
				scenario.Waits("missing", 2, scenario.Reason{Cause: claimNotGenerated, Mentions: []string{"no-such-template"}}),
				scenario.Scheduled("present", 2, scenario.NoDeviceTwice()),
			),
		},
	}
}

func deletedClaim() scenario.Scenario {
	const name = "deleted-claim"
	deleted := builder.Claim("deleted", gpus(1)).Obj()
	// A foreign finalizer keeps the claim in this state.
	deleted.Finalizers = []string{"playground.quartermaster/hold"}
	return scenario.Scenario{
		Name:    name,
		Shows:   "A claim that is being deleted gets no devices; they stay free for others.",
		Cluster: gpuNodes(name, 1, 1),
		Steps: []scenario.Step{
			scenario.Create(deleted),
			scenario.Delete(deleted),
			scenario.Create(builder.AppPod("deleted", "deleted", onNodesOf(name, builder.Uses("deleted")))),
			scenario.Expect(scenario.Waits("deleted", 1, scenario.Reason{Cause: claimDeleted, Claim: "deleted"})),
			scenario.Create(
				builder.Claim("alive", gpus(1)).Obj(),
				builder.AppPod("alive", "alive", onNodesOf(name, builder.Uses("alive"))),
			),
			scenario.Expect(scenario.Scheduled("alive", 1, scenario.DevicesEach(1))),
		},
	}
}
