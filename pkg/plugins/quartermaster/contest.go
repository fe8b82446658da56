package quartermaster

import (
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/commit/foreign"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// compete gives a profile its Contest. The first profile creates the registry of other schedulers' pods for all.
func (s *shared) compete(pl *Quartermaster) error {
	s.profilesMutex.Lock()
	defer s.profilesMutex.Unlock()
	first := s.contenders == nil
	if first {
		s.contenders = foreign.New(clock.RealClock{}, pl.needsDevices)
	}
	s.contenders.Own(pl.handle.ProfileName())
	pl.contest = &foreign.Contest{
		Contenders: s.contenders,
		Order:      s.Order,
		Cluster:    contestedCluster{pl},
		SettleTime: pl.settleTime,
	}
	if !first {
		return nil
	}
	factory := pl.handle.SharedInformerFactory()
	registrations, err := foreign.Follow(s.contenders, factory.Core().V1().Pods().Informer(),
		factory.Resource().V1().ResourceClaims().Informer(), pl.claims.Users)
	for _, registration := range registrations {
		s.SyncWith(registration)
	}
	return err
}

// settleTime returns how long claims settle. With a guard in place it is zero: the guard prevents the server from
// storing anything in conflict with what is stored.
func (pl *Quartermaster) settleTime() time.Duration {
	if pl.state.guard.InPlace() {
		return 0
	}
	return pl.args.SettleTime.Duration
}

// needsDevices reports whether a pod may have devices: it has claims, or resources that a class may stand for.
func (pl *Quartermaster) needsDevices(pod *v1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || len(pl.extendedResources(pod)) > 0
}

// contestedCluster implements contest.Cluster.
type contestedCluster struct{ pl *Quartermaster }

// Claim implements contest.Cluster.
func (c contestedCluster) Claim(namespace, name string) *resourceapi.ResourceClaim {
	return c.pl.claims.Claim(namespace, name)
}

// ClaimsOf implements contest.Cluster.
func (c contestedCluster) ClaimsOf(pod *v1.Pod) ([]*resourceapi.ResourceClaim, error) {
	return c.pl.claims.Of(pod)
}

// ClaimToMake implements contest.Cluster.
func (c contestedCluster) ClaimToMake(pod *v1.Pod) *resourceapi.ResourceClaim {
	backed := extended.Backed(c.pl.extendedResources(pod))
	if len(backed) == 0 {
		return nil
	}
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, UID: pod.UID},
		Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: extended.RequestsFor(pod, backed).Devices}},
	}
}

// Prepare implements contest.Cluster.
func (c contestedCluster) Prepare(claim *resourceapi.ResourceClaim) *allocator.Task {
	return c.pl.solver.Prepare([]*resourceapi.ResourceClaim{claim})
}

// CouldUse implements contest.Cluster.
func (c contestedCluster) CouldUse(task *allocator.Task, pools map[inventory.PoolID][]string) bool {
	return c.pl.events.CouldUse(task, pools)
}
