package quartermaster

import (
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/binding"
	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/cluster"
	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/commit/foreign"
	"github.com/quartermaster-dra/quartermaster/internal/eligibility"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd/coordinator"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd/status"
	"github.com/quartermaster-dra/quartermaster/internal/gang/workload"
	"github.com/quartermaster-dra/quartermaster/internal/guard/presence"
	"github.com/quartermaster-dra/quartermaster/internal/hold"
	"github.com/quartermaster-dra/quartermaster/internal/hold/booking"
	"github.com/quartermaster-dra/quartermaster/internal/nodes/demand"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
)

// shared holds the state that all profiles of a scheduler share.
type shared struct {
	*cluster.State

	// profiles are the plugins that share the state, one for each profile; profilesMutex guards them.
	profiles      []*Quartermaster
	profilesMutex sync.RWMutex

	// claims looks up the claims of pods.
	claims *podclaims.Claims
	// needs finds out what pods need. It does not know of controllers of drivers: each profile asks them for itself.
	needs eligibility.Finder

	// competitors are the pods of other schedulers that need devices.
	competitors *foreign.Registry

	// guard tracks whether a guard is in place.
	guard *presence.Presence
	// looking and running start the background work once, for all profiles: the look for a guard, and the rest.
	looking, running sync.Once

	// demand learns the requests of pods.
	demand *demand.Learner

	// nominations holds the devices kept for nominated pods.
	nominations *preemption.Nominations
	// priorities tracks the priorities of pods that may hold devices.
	priorities *preemption.Priorities

	// holds has the devices that are kept for pods that have waited for long; firstHolds has one value until the first plan begins, before
	// the first attempt, and is closed after it.
	// holdsOn is set, before the informers run, if any profile has holds.
	holds      *hold.Registry
	firstHolds chan struct{}
	// planning is locked during a plan, planned is the time of the last one that was used, in nanoseconds since 1970; plans counts those in
	// which not all bookings have a turn.
	planning   sync.Mutex
	planned    atomic.Int64
	plans      atomic.Int64
	holdsBegin sync.Once
	holdsOn    atomic.Bool
	volumes    corelisters.PersistentVolumeClaimLister
	namespaces corelisters.NamespaceLister
	// bookings has the DeviceBookings.
	bookings *booking.Bookings

	// groups holds the claims of PodGroups that are in use, nil if there can be none (gate DRAWorkloadResourceClaims).
	groups *workload.Claims
	// groupPlans says when PodGroups of the API are planned.
	groupPlans workload.Plans

	// turns prevents pods of one namespace from holding up those of other namespaces.
	turns *queue.Turns

	// claimEvents limits the events about claims.
	claimEvents *write.Limit

	// gangs schedules pods of PodGroups of scheduler-plugins together; podGroups holds these PodGroups, and
	// podGroupStatus writes their status; it is nil without a server.
	gangs          *coordinator.Coordinator
	podGroups      *crd.Groups
	podGroupStatus *status.Controller

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

// served returns the plugins that share the state.
func (s *shared) served() []*Quartermaster {
	s.profilesMutex.RLock()
	defer s.profilesMutex.RUnlock()
	return s.profiles
}

// Schedules implements preemption.Profiles: it reports whether the scheduler has a profile of that name.
func (s *shared) Schedules(name string) bool {
	return s.RunnerOf(name) != nil
}

// RunnerOf implements commit.Profiles: it returns the Runner of a profile, nil if the scheduler has no profile of that name.
func (s *shared) RunnerOf(schedulerName string) *commit.Runner {
	for _, profile := range s.served() {
		if profile.handle.ProfileName() == schedulerName {
			return profile.commits
		}
	}
	return nil
}

// EvictsOnConflict implements conflicts.Profiles: the first profile decides.
func (s *shared) EvictsOnConflict() bool {
	return s.served()[0].args.OnConflict == EvictOnConflict
}

// Settling implements conflicts.Profiles: it returns the longest time for which claims of any profile may still settle.
func (s *shared) Settling() (longest time.Duration) {
	for _, pl := range s.served() {
		longest = max(longest, pl.foreign.StillSettling())
	}
	return longest
}

// Trying implements preemption.Profiles: it returns a pod that one of the profiles tries to schedule, nil if none does.
func (s *shared) Trying(pod types.UID) *v1.Pod {
	for _, profile := range s.served() {
		if entry := profile.waiting.Get(pod); entry != nil {
			return entry.Latest()
		}
	}
	return nil
}

// Binding implements preemption.Profiles.
func (s *shared) Binding(pod types.UID) *v1.Pod {
	for _, profile := range s.served() {
		if profile.commits.Writes(pod) {
			return s.Trying(pod)
		}
	}
	return nil
}
