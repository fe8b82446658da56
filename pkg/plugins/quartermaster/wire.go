package quartermaster

import (
	"context"
	"fmt"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/binding"
	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/classicdra"
	"github.com/quartermaster-dra/quartermaster/internal/cluster"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/commit/conflicts"
	"github.com/quartermaster-dra/quartermaster/internal/commit/foreign"
	"github.com/quartermaster-dra/quartermaster/internal/config"
	"github.com/quartermaster-dra/quartermaster/internal/eligibility"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd/coordinator"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd/status"
	"github.com/quartermaster-dra/quartermaster/internal/gang/workload"
	"github.com/quartermaster-dra/quartermaster/internal/guard/presence"
	"github.com/quartermaster-dra/quartermaster/internal/hold"
	"github.com/quartermaster-dra/quartermaster/internal/hold/booking"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/kube/nodeallocatable"
	"github.com/quartermaster-dra/quartermaster/internal/nodes"
	"github.com/quartermaster-dra/quartermaster/internal/nodes/demand"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// sharedBy returns the state that profiles with the handle's informers share.
func sharedBy(ctx context.Context, handle fwk.Handle, features kube.Features) (*shared, error) {
	factory := handle.SharedInformerFactory()
	states.Lock()
	defer states.Unlock()
	if state := states.byFactory[factory]; state != nil {
		return state, nil
	}
	state, err := wireShared(ctx, handle, features)
	if err != nil {
		return nil, err
	}
	states.byFactory[factory] = state
	return state, nil
}

// wireShared makes the state that the profiles of a scheduler share, with the handle of the first of them. Each part comes after those
// that it uses.
func wireShared(ctx context.Context, handle fwk.Handle, features kube.Features) (s *shared, err error) {
	factory, client, manager := handle.SharedInformerFactory(), handle.ClientSet(), handle.SharedDRAManager()
	s = &shared{
		guard: presence.New(client), demand: demand.New(clock.RealClock{}), failures: binding.NewFailures(clock.RealClock{}),
		nominations: preemption.NewNominations(), holds: hold.NewRegistry(), firstHolds: make(chan struct{}, 1), priorities: preemption.NewPriorities(), claimEvents: write.NewLimit(),
		volumes: factory.Core().V1().PersistentVolumeClaims().Lister(), namespaces: factory.Core().V1().Namespaces().Lister(),
	}
	s.firstHolds <- struct{}{}
	if features.EnableDRAWorkloadResourceClaims {
		s.groups = workload.NewClaims()
	}
	// The gate of taint rules is not among the scheduler's plugin features.
	withRules := features.EnableDRADeviceTaints && utilfeature.DefaultFeatureGate.Enabled(kube.DRADeviceTaintRules)
	if s.State, err = cluster.New(factory, client, config.AllocatorFeatures(features), withRules, lease.Of(ctx)); err != nil {
		return nil, err
	}
	s.Holds = s // For a guard in this process.
	s.claims = &podclaims.Claims{
		Stored: s.Claims, Tracked: manager.ResourceClaims(), OfGroups: features.EnableDRAWorkloadResourceClaims, Server: api.Of(client),
	}
	if err := s.claims.IndexPods(factory.Core().V1().Pods().Informer(), cluster.PodsByClaim); err != nil {
		return nil, err
	}
	s.needs.Claims, s.needs.Stored = s.claims, s.Claims
	if features.EnableDRAExtendedResource {
		s.needs.Classes, s.offers = manager.DeviceClassResolver(), extended.NewOffers()
		if err := extended.IndexClaims(factory.Resource().V1().ResourceClaims().Informer()); err != nil {
			return nil, err
		}
	}
	if s.bookings, err = booking.New(handle.KubeConfig(), client); err != nil {
		return nil, err
	}
	s.turns = queue.NewTurns(newSchedulingQueue(handle, s))
	s.competitors = foreign.New(clock.RealClock{}, &s.needs)
	if err := s.wireGangs(handle, features); err != nil {
		return nil, err
	}
	return s, s.follow(factory) // Last: the handlers call all of the above.
}

// wireGangs makes the part of the shared state that is about PodGroups of scheduler-plugins.
func (s *shared) wireGangs(handle fwk.Handle, features kube.Features) (err error) {
	config := handle.KubeConfig()
	if s.podGroups, err = crd.New(config); err != nil {
		return err
	}
	known := coordinator.Cluster{Groups: s.podGroups, Claims: s.claims, Ledger: s.Ledger, Waker: s}
	if features.EnableDRAExtendedResource {
		known.Backing = extended.Backing{Handle: handle}
	}
	if s.gangs, err = coordinator.New(handle.SharedInformerFactory().Core().V1().Pods().Informer(), known); err != nil {
		return err
	}
	if config != nil {
		writer, err := dynamic.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("client for the status of PodGroups: %w", err)
		}
		s.podGroupStatus = status.New(handle.ClientSet(), writer, s.podGroups, s.Lease)
	}
	s.podGroups.OnChange(s.gangs.GroupChanged)
	s.OnPublished(s.gangs.StirAll)
	s.Wakes(s.gangs)
	if s.needs.Classes != nil {
		extended.FollowNames(s.needs.Classes, s.gangs.StirAll)
	}
	return nil
}

// wire makes the plugin of a profile. Each part comes after those that it uses; no field is set later.
func wire(ctx context.Context, args *QuartermasterArgs, features kube.Features, handle fwk.Handle, state *shared) (pl *Quartermaster, err error) {
	client, manager, core := handle.ClientSet(), handle.SharedDRAManager(), handle.SharedInformerFactory().Core().V1()
	supported := config.AllocatorFeatures(features)
	pl = &Quartermaster{
		handle: handle, args: args, features: features, state: state, stopping: ctx,
		claims: state.claims, nodes: core.Nodes().Lister(), groups: state.groups, failures: state.failures,
		chooser: nodes.New(handle, Name), objectives: config.NewObjectives(args), attemptBudget: attemptBudget,
		scoring:           &extended.Scoring{Claims: manager.ResourceClaims(), Stopping: ctx},
		bindingConditions: supported.DeviceBindingAndStatus,
	}
	// The write path: nothing is written without the lease, nor what the guard has stored otherwise.
	pl.writer = write.New(client, write.Options{
		WithoutTimestamp: !supported.DeviceBindingAndStatus, Limits: consumerLimits{pl}, Permission: state.Lease, Guards: state.guard,
		Changed: write.Told(handle.EventRecorder(), *args.ClaimEventsPerSecond, state.claimEvents, pl.claims.Server),
	})

	// The queue: who waits, and who wakes them.
	pl.waiting, pl.widened = queue.NewPods(core.Pods().Informer().GetIndexer()), queue.NewPods(core.Pods().Informer().GetIndexer())
	pl.waker = queue.NewWaker(klog.FromContext(ctx), state.turns)
	pl.events = &queue.Events{
		Pods: pl.waiting, Waker: pl.waker, Made: queue.NewClaimsMade(core.Pods().Lister(), queue.Delay),
		Claims: pl.claims, Pools: state, Context: queue.NewContext(),
	}
	pl.reporter = queue.New(handle, state, pl.events.Made, pl.waiting)

	// The search. Claims of older servers come first, because they change what it understands.
	if pl.legacy, err = classicdra.For(ctx, client, classicdra.Scheduler{
		Claims: pl.claims, Classes: manager.DeviceClasses(), Nodes: pl.nodes, Waiting: pl.waiting, Waker: pl.waker, Asker: pl.writer,
	}); err != nil {
		return nil, err
	}
	pl.needs = eligibility.Finder{Claims: pl.claims, Classes: state.needs.Classes, Stored: state.Claims, Controllers: pl.legacy}
	if features.EnableDRANodeAllocatableResources && pl.legacy == nil {
		if pl.accountant, err = nodeallocatable.New(ctx, handle, features, pl.published); err != nil {
			return nil, err
		}
	}
	podclaims.Warn(klog.FromContext(ctx), pl.refusesOfNode(), Name)
	pl.solver, pl.plainSolver = pl.newSolver(supported, pl.refusesOfNode()), pl.newSolver(supported, pl.features.EnableDRANodeAllocatableResources)
	pl.learner = &demand.Observer{
		Demand: state.demand, Inventory: state.Inventory, Nodes: pl.nodes, Pods: core.Pods().Lister(), Claims: pl.claims, Solver: pl.solver,
	}

	// The commit: it settles beside other schedulers, waits after a failover, and waits for devices.
	pl.foreign = &foreign.Watch{
		Competitors: state.competitors, Order: state.Order, Cluster: foreignCluster{pl.claims, pl.events, pl},
	}
	pl.takeover = commit.New(klog.FromContext(ctx), args.TakeoverPause.Duration, state, handle)
	pl.devices = &binding.Waiter{
		Cluster: knownObjects{pl.claims, state.Order}, Stopping: ctx, Recorder: handle.EventRecorder(), Profile: handle.ProfileName(),
	}
	if args.BindingTimeout != nil {
		pl.devices.Timeout = args.BindingTimeout.Duration
	}
	pl.commits = &commit.Runner{
		State: state.State, Writer: pl.writer, Known: pl.claims, Foreign: pl.foreign, Takeover: pl.takeover,
		Groups:  pl.groups, // If it is nil, no claim belongs to a group.
		Signals: pl.scoring, Profile: ownProfile{pl}, Stopping: ctx,
	}
	pl.remover = &extended.Remover{
		Claims: pl.claims, Stored: state.Claims, Controllers: pl.legacy, Writer: pl.writer, Attempts: pl.commits,
	}

	// Preemption: who holds devices, when they are free, and for whom they are kept.
	pl.holders = &preemption.Holders{Ledger: state.Ledger, Claims: pl.claims, Profiles: state}
	if features.EnableGenericWorkload {
		pl.holders.Snapshot = handle
	}
	ofGroups := &preemption.Groups{Known: pl.claims, InUse: pl.groups, Server: pl.writer, Profiles: state, Takeover: pl.takeover}
	pl.release = preemption.NewRelease(pl.writer, pl.claims, pl.commits, ofGroups.Usage, ownProfile{pl})
	pl.nominated = &preemption.NominatedDevices{
		Nominations: state.nominations, Holders: pl.holders, Needs: &pl.needs, Solver: pl.solver, Inventory: state.Inventory,
		Nodes: pl.nodes, Waker: state, Release: pl.release,
	}
	if features.EnableGenericWorkload {
		pl.nominees = preemption.NewGroupNominees(client, core.Pods().Lister(), state.nominations, pl.holders, handle.ProfileName(), state, pl.commits)
	}
	pl.preemption, err = preemption.New(ctx, Name, handle, features, deviceHolders{pl}, state.gangs, state.Lease, pl.holders.Gives)
	return pl, err
}

// newSolver returns a Solver of a profile, with or without devices that take resources of their node.
func (pl *Quartermaster) newSolver(supported structured.Features, refuseOfNode bool) *allocator.Solver {
	solver := &allocator.Solver{
		Features: supported, Classes: pl.handle.SharedDRAManager().DeviceClasses(), StepBudget: int(*pl.args.StepBudget), KeepShared: true,
		RefuseOfNode: refuseOfNode,
	}
	if pl.legacy.Resolves() {
		solver.Resolve = pl.legacy.Resolve
		solver.Evaluator = pl.state.Memory.NewEvaluator(config.CELFeatures(pl.features), api.NewLanguage())
	} else {
		solver.Evaluator = pl.state.Memory.NewEvaluator(config.CELFeatures(pl.features))
	}
	return solver
}

// serve adds the plugin of a profile to those that share the state, before the informers run.
func (s *shared) serve(pl *Quartermaster) {
	profile := pl.handle.ProfileName()
	s.Memory.Bound(quantity.Value(*pl.args.CacheSize))
	s.competitors.Own(profile)
	s.gangs.Serve(profile, pl.handle, coordinator.Times{
		Permit: time.Duration(*pl.args.PermitWaitingTimeSeconds) * time.Second, Backoff: time.Duration(*pl.args.PodGroupBackoffSeconds) * time.Second,
	})
	s.Wakes(pl.events)
	s.profilesMutex.Lock()
	defer s.profilesMutex.Unlock()
	s.profiles = append(s.profiles[:len(s.profiles):len(s.profiles)], pl)
}

// run starts the background work of a profile, and that of the shared state with the first profile. It ends with the context.
func (pl *Quartermaster) run(ctx context.Context) {
	s := pl.state
	go pl.reporter.Run(ctx)
	go pl.release.Run(ctx)
	if pl.nominees != nil {
		go pl.nominees.Run(ctx)
	}
	s.running.Do(func() {
		reporter := &conflicts.Reporter{
			Order: s.Order, Objects: s.claims, Leadership: s, Profiles: s,
			Client: pl.handle.ClientSet(), Recorder: pl.handle.EventRecorder(),
		}
		reporter.Start(ctx) // Before the Order finds conflicts.
		go s.Order.Run(ctx)
		go s.competitors.Follow(ctx, pl.handle.ClientSet())
		idle := &commit.Idle{Runner: pl.commits, Profiles: s, Controllers: pl.legacy}
		go idle.Run(ctx)
		go s.podGroups.Run(ctx)
		if s.podGroupStatus != nil {
			go s.podGroupStatus.Run(ctx)
		}
	})
	if pl.args.Holds() || *pl.args.MaxHolds > 0 && pl.handle.KubeConfig() != nil {
		s.beginHolds(ctx)
	}
	s.looking.Do(func() { go s.guard.Run(ctx) })
	context.AfterFunc(ctx, func() { forget(pl.handle.SharedInformerFactory()) })
}

// beginHolds turns holds on, for pods that wait and for bookings.
func (s *shared) beginHolds(ctx context.Context) {
	s.holdsBegin.Do(func() {
		s.holdsOn.Store(true)
		go s.bookings.Run(ctx)
		go s.bookings.Write(ctx, s, s.served()[0].handle.EventRecorder())
		go s.runHolds(ctx)
		go s.holds.WriteConditions(ctx, s.served()[0].handle.ClientSet(), s.Ledger, s)
	})
}
