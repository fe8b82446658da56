package quartermaster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/binding"
	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/classicdra"
	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/commit/foreign"
	"github.com/quartermaster-dra/quartermaster/internal/config"
	"github.com/quartermaster-dra/quartermaster/internal/eligibility"
	"github.com/quartermaster-dra/quartermaster/internal/gang/workload"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/kube/nodeallocatable"
	"github.com/quartermaster-dra/quartermaster/internal/nodes"
	"github.com/quartermaster-dra/quartermaster/internal/nodes/demand"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
	"github.com/quartermaster-dra/quartermaster/internal/telemetry/tracing"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// Quartermaster is the plugin. It is safe for concurrent use.
type Quartermaster struct {
	handle   fwk.Handle
	args     *QuartermasterArgs
	features kube.Features
	// plainSolver leaves out devices that take resources of their node, for extended resources; all else uses solver.
	solver, plainSolver *allocator.Solver
	// accountant is nil if devices that take resources of their node mean nothing, or are refused.
	accountant *nodeallocatable.Accountant
	writer     *write.Writer
	state      *shared
	takeover   *commit.Pause
	chooser    *nodes.Chooser
	learner    *demand.Observer
	scoring    *extended.Scoring
	objectives *config.Objectives
	reporter   *queue.UnqueuedReporter
	waiting    *queue.Pods
	// widened are pods without devices that did not fit the nodes that PreFilter named for them.
	widened *queue.Pods
	waker   *queue.Waker
	events  *queue.Events
	foreign *foreign.Watch
	commits *commit.Runner
	// holders finds the pods that hold devices, and preemption evicts them.
	holders    *preemption.Holders
	preemption *preemption.Preemption
	nominated  *preemption.NominatedDevices
	// nominees is nil without PodGroups of the API (gate GenericWorkload).
	nominees *preemption.GroupNominees
	release  *preemption.Release
	remover  *extended.Remover
	// devices lets pods wait for binding conditions. It is used only if bindingConditions is set, which takes both
	// feature gates.
	devices           *binding.Waiter
	bindingConditions bool
	// failures remembers the devices that did not get ready for pods.
	failures *binding.Failures
	// stopping ends when the scheduler stops.
	stopping context.Context
	// legacy is nil if the server serves everything in v1.
	legacy *classicdra.Mode
	// groups is nil unless claims can belong to PodGroups (gate DRAWorkloadResourceClaims).
	groups *workload.Claims
	// attemptBudget limits the time that an attempt waits for the evaluation of selectors, on all nodes together.
	attemptBudget time.Duration
	// needs finds out what pods need.
	needs eligibility.Finder
	// claims looks up the claims of pods.
	claims *claims.Claims
	nodes  corelisters.NodeLister
}

var (
	_ fwk.PreEnqueuePlugin         = &Quartermaster{}
	_ fwk.PreFilterPlugin          = &Quartermaster{}
	_ fwk.PreFilterExtensions      = &Quartermaster{}
	_ fwk.FilterPlugin             = &Quartermaster{}
	_ fwk.PostFilterPlugin         = &Quartermaster{}
	_ fwk.PodGroupPostFilterPlugin = &Quartermaster{}
	_ fwk.PreScorePlugin           = &Quartermaster{}
	_ fwk.ScorePlugin              = &Quartermaster{}
	_ fwk.ScoreExtensions          = &Quartermaster{}
	_ fwk.ReservePlugin            = &Quartermaster{}
	_ fwk.PermitPlugin             = &Quartermaster{}
	_ fwk.PreBindPlugin            = &Quartermaster{}
	_ fwk.PostBindPlugin           = &Quartermaster{}
	_ fwk.EnqueueExtensions        = &Quartermaster{}
	_ fwk.SignPlugin               = &Quartermaster{}
)

// New returns the plugin. It can be passed to app.WithPlugin or registered in a frameworkruntime.Registry.
func New(ctx context.Context, configured runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	features := kube.FeaturesFrom(utilfeature.DefaultFeatureGate)
	args, err := config.Parse(configured, features)
	if err != nil {
		return nil, err
	}
	registerMetrics()
	if !features.EnableDynamicResourceAllocation {
		return nil, fmt.Errorf("plugin %s: it allocates devices but the feature gate DynamicResourceAllocation is off; "+
			"turn the gate on or take the plugin out of the configuration", Name)
	}
	state, err := sharedBy(ctx, handle, features)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	pl, err := wire(ctx, args, features, handle, state)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	tracer, err := tracing.NewTracer(ctx, args.Tracing)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	state.serve(pl)
	pl.run(ctx)
	return tracing.Around(pl, tracer, handle.ProfileName()), nil
}

// Name implements fwk.Plugin.
func (pl *Quartermaster) Name() string { return Name }
