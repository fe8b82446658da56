package quartermaster

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	nodeallocatable "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/binding"
	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/classicdra"
	"github.com/quartermaster-dra/quartermaster/internal/cluster"
	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/commit/foreign"
	"github.com/quartermaster-dra/quartermaster/internal/config"
	"github.com/quartermaster-dra/quartermaster/internal/gang/workload"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	narrowing "github.com/quartermaster-dra/quartermaster/internal/nodes"
	"github.com/quartermaster-dra/quartermaster/internal/nodes/demand"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
	"github.com/quartermaster-dra/quartermaster/internal/telemetry/tracing"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// Quartermaster is the plugin. It is safe for concurrent use.
type Quartermaster struct {
	handle   fwk.Handle
	args     *QuartermasterArgs
	features kube.Features
	solver   *allocator.Solver
	writer   *write.Writer
	// consumerLimit returns the maximum number of consumers of a claim.
	consumerLimit func(*resourceapi.ResourceClaim) int
	state         *shared
	takeover      *commit.Pause
	narrowing     *narrowing.Narrowing
	learner       *demand.Observer
	scoring       *extended.Scoring
	objectives    *config.Objectives
	gate          *queue.Reporter
	waiting       *queue.Pods
	waker         *queue.Waker
	events        *queue.Events
	contest       *foreign.Contest
	commits       *commit.Runner
	// holders finds the pods that hold devices, and preemption evicts them.
	holders    *preemption.Holders
	preemption *preemption.Preemption
	planner    *preemption.Planner
	release    *preemption.Release
	leftovers  *extended.Remover
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
	// storesExtended reports whether the API server may store the status fields about extended resources.
	storesExtended func() bool
	// claims looks up the claims of pods.
	claims *nodeallocatable.Claims
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
	state.Memory.Bound(quantity.Value(*args.CacheSize))
	nodeallocatable.Warn(klog.FromContext(ctx), features, Name)
	pl := newPlugin(ctx, args, features, handle, state)
	if pl.preemption, err = preemption.New(ctx, Name, handle, features, deviceHolders{pl}, state.gangs, pl.holders.Gives); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	tracer, err := tracing.NewTracer(ctx, args.Tracing)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	if err := pl.follow(ctx); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	return tracing.Around(pl, tracer, handle.ProfileName()), nil
}

// newPlugin returns a plugin that does not receive events yet.
func newPlugin(ctx context.Context, args *QuartermasterArgs, features kube.Features, handle fwk.Handle, state *shared) *Quartermaster {
	supported := config.AllocatorFeatures(features)
	client, manager := handle.ClientSet(), handle.SharedDRAManager()
	pl := &Quartermaster{
		handle:   handle,
		args:     args,
		features: features,
		solver: &allocator.Solver{
			Features:   supported,
			Classes:    manager.DeviceClasses(),
			Evaluator:  state.Memory.NewEvaluator(config.CELFeatures(features)),
			StepBudget: int(*args.StepBudget),
			KeepShared: true,
			// Only kube-scheduler itself can account for what devices take of their node.
			RefuseOfNode: features.EnableDRANodeAllocatableResources,
		},
		consumerLimit: api.ConsumerLimit(client),
		state:         state,
		narrowing:     narrowing.New(handle, Name),
		objectives:    config.NewObjectives(args),
		scoring:       &extended.Scoring{Claims: manager.ResourceClaims(), Stopping: ctx},
		claims: &nodeallocatable.Claims{
			Stored:   state.Claims,
			Tracked:  manager.ResourceClaims(),
			OfGroups: features.EnableDRAWorkloadResourceClaims,
			Absent:   api.NoClaims(client),
		},
		nodes:             handle.SharedInformerFactory().Core().V1().Nodes().Lister(),
		attemptBudget:     attemptBudget,
		storesExtended:    func() bool { return api.StoresExtendedResources(client) },
		bindingConditions: supported.DeviceBindingAndStatus,
		stopping:          ctx,
	}
	pl.writer = write.New(client, write.WithTimestamp(supported.DeviceBindingAndStatus),
		write.WithConsumerLimit(pl.consumerLimit), write.WithPermission(func() error { return state.Lease.Leads() }),
		write.WithStored(state.guard.Stored), write.Told(handle.EventRecorder(), *args.ClaimEventsPerSecond, state.claimEvents, api.ClaimVersion(client)))
	pl.takeover = commit.New(args.TakeoverPause.Duration, state.LeadsSince, func(pods map[string]*v1.Pod) {
		handle.Activate(klog.FromContext(ctx), pods)
	})
	pl.devices, pl.failures = pl.newDeviceWaiter(), state.failures
	pl.groups = state.groups
	pl.holders = pl.newHolders()
	pl.learner = &demand.Observer{
		Demand: state.demand, Inventory: state.Inventory, Nodes: pl.nodes, Pods: handle.SharedInformerFactory().Core().V1().Pods().Lister(),
		Claims: pl.claims, Solver: pl.solver,
	}
	return pl
}

// follow registers the plugin's event handlers and starts its background work, until the context ends.
func (pl *Quartermaster) follow(ctx context.Context) error {
	pods := pl.handle.SharedInformerFactory().Core().V1().Pods().Informer()
	if err := pl.claims.IndexPods(pods, cluster.PodsByClaim); err != nil {
		return err
	}
	if err := pl.followEvents(ctx, pods); err != nil {
		return err
	}
	mode, err := classicdra.For(ctx, pl.handle.ClientSet(), pl.olderServers())
	if err != nil {
		return err
	}
	pl.support(mode)
	pl.gate = queue.New(pl.handle, pl.lacks, pl.events.Made.ToCome, pl.waiting.Begun)
	go pl.gate.Run(ctx)
	if err := pl.state.compete(pl); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	pl.commits = pl.newRunner()
	pl.leftovers = pl.newLeftovers()
	if err := pl.startReleases(ctx, pods); err != nil {
		return err
	}
	if err := pl.followGroupNominees(ctx, pods); err != nil {
		return err
	}
	pl.state.Wakes(pl.events)
	pl.state.conduct(ctx, pl)
	pl.state.report(pl, ctx)
	pl.state.looking.Do(func() { go pl.state.guard.Run(ctx) })
	context.AfterFunc(ctx, func() { forget(pl.handle.SharedInformerFactory()) })
	return nil
}

// Name implements fwk.Plugin.
func (pl *Quartermaster) Name() string { return Name }
