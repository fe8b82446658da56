package quartermaster

import (
	"context"
	"sync"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/quartermaster-dra/quartermaster/internal/claims/binding"
	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/cluster"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/commit/foreign"
	"github.com/quartermaster-dra/quartermaster/internal/config"
	"github.com/quartermaster-dra/quartermaster/internal/gang/coordinator"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd/status"
	"github.com/quartermaster-dra/quartermaster/internal/gang/workload"
	"github.com/quartermaster-dra/quartermaster/internal/guard/presence"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/nodes/demand"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
)

// shared holds the state that all profiles of a scheduler share.
type shared struct {
	*cluster.State

	// reporting starts the reporting of conflicts once, for all profiles.
	reporting sync.Once
	// profiles are the plugins that share the state; profilesMutex guards them.
	profiles      []*Quartermaster
	profilesMutex sync.Mutex

	// contenders are the pods of other schedulers that need devices.
	contenders *foreign.Registry

	// guard tracks whether a guard is in place, and looking starts that once, for all profiles.
	guard   *presence.Presence
	looking sync.Once

	// demand learns the requests of pods.
	demand *demand.Learner

	// nominations holds the devices kept for nominated pods.
	nominations *preemption.Nominations
	// priorities tracks the priorities of pods that may hold devices.
	priorities *preemption.Priorities

	// groups holds the claims of PodGroups that are in use, nil if there can be none (gate DRAWorkloadResourceClaims).
	groups *workload.Claims

	// turns prevents pods of one namespace from holding up those of other namespaces.
	turns *queue.Turns

	// claimEvents limits the events about claims.
	claimEvents *write.Limit

	// gangs schedules pods of PodGroups of scheduler-plugins together; podGroups holds these PodGroups, and
	// podGroupStatus writes their status; it is nil without a server.
	gangs          *coordinator.Coordinator
	podGroups      *crd.Groups
	podGroupStatus *status.Controller
	// conducting starts the background work for gangs once, for all profiles.
	conducting sync.Once

	// idle starts the release of claims that keep devices in vain once, for all profiles.
	idle sync.Once

	// failures remembers the devices that did not get ready for pods.
	failures *binding.Failures

	// offers is nil without extended resources.
	offers *extended.Offers
}

// states holds the shared state by informer factory; each scheduler has one factory.
var states = struct {
	sync.Mutex
	byFactory map[informers.SharedInformerFactory]*shared
}{byFactory: make(map[informers.SharedInformerFactory]*shared)}

// StateOf returns the cluster state of the scheduler with these informers, nil if none of its profiles has the plugin.
func StateOf(factory informers.SharedInformerFactory) *cluster.State {
	states.Lock()
	defer states.Unlock()
	if state := states.byFactory[factory]; state != nil {
		return state.State
	}
	return nil
}

// forget drops the state of a scheduler that has ended: the process may continue with another scheduler.
func forget(factory informers.SharedInformerFactory) {
	states.Lock()
	defer states.Unlock()
	delete(states.byFactory, factory)
}

// sharedBy returns the state that profiles with the handle's informers share.
func sharedBy(ctx context.Context, handle fwk.Handle, gates kube.Features) (*shared, error) {
	factory := handle.SharedInformerFactory()
	states.Lock()
	defer states.Unlock()
	if state := states.byFactory[factory]; state != nil {
		return state, nil
	}
	// The gate of taint rules is not among the scheduler's plugin features.
	withRules := gates.EnableDRADeviceTaints && utilfeature.DefaultFeatureGate.Enabled(kube.DRADeviceTaintRules)
	known, err := cluster.New(factory, handle.ClientSet(), config.AllocatorFeatures(gates), withRules, lease.Of(ctx))
	if err != nil {
		return nil, err
	}
	state := &shared{State: known, guard: presence.New(handle.ClientSet()), demand: demand.New(clock.RealClock{}),
		nominations: preemption.NewNominations(), priorities: preemption.NewPriorities(), claimEvents: write.NewLimit(), failures: binding.NewFailures(clock.RealClock{})}
	state.turns = state.newTurns(handle)
	if gates.EnableDRAWorkloadResourceClaims {
		state.groups = workload.NewClaims()
	}
	if err := state.newGangs(handle); err != nil {
		return nil, err
	}
	if err := state.followNominated(factory.Core().V1().Pods().Informer()); err != nil {
		return nil, err
	}
	if gates.EnableDRAExtendedResource {
		state.gangs.Backed = extended.BackedBy(handle.SharedDRAManager)
		extended.FollowNames(handle.SharedDRAManager().DeviceClassResolver(), state.gangs.StirAll)
		if err := extended.IndexClaims(factory.Resource().V1().ResourceClaims().Informer()); err != nil {
			return nil, err
		}
		if state.offers, err = extended.FollowOffers(factory.Core().V1().Nodes().Informer()); err != nil {
			return nil, err
		}
	}
	states.byFactory[factory] = state
	return state, nil
}
