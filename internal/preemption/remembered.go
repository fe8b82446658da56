package preemption

import (
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/quartermaster-dra/quartermaster/internal/podgroup"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// remembered has, from one attempt to the next, the pools of which all that is in use is held by pods on nodes. In a
// full cluster these are nearly all, and which pods they are need not be found out for each attempt anew.
type remembered struct {
	pools    sync.Map // inventory.PoolKey to *heldPool
	verdicts sync.Map // name of a node to []*verdict, never empty
	// bytes is what verdicts take. The mutex is for changes of both.
	bytes int
	mutex sync.Mutex
	// added is how many were added.
	added atomic.Int64
}

// sweepAfter is how many pools are added until those are looked for that have changed since.
const sweepAfter = 4096

// heldPool is a pool of which all that is in use is held by pods on nodes, none of them for a PodGroup.
type heldPool struct {
	// usage is what the ledger had, and changes the count of changes then: as long as these are the same, so are the
	// pods. Nothing is kept of what the ledger does not have any more.
	usage   weak.Pointer[ledger.PoolUsage]
	count   *atomic.Uint64
	changes uint64
	// claims hold what is in use, for pods of that priority at most.
	claims  []types.UID
	highest int32
	// onlyOn is the node of all these pods, "" if they are on several.
	onlyOn string

	once    sync.Once
	emptied *ledger.PoolUsage
}

// isOf reports whether it is what the ledger has of the pool.
func (p *heldPool) isOf(usage *ledger.PoolUsage) bool {
	return usage != nil && p.usage.Value() == usage
}

// without is what is in use without all these claims, of the usage of which the pool was found.
func (p *heldPool) without(pool *inventory.NodePool, usage *ledger.PoolUsage) *ledger.PoolUsage {
	p.once.Do(func() {
		all := func(types.UID) bool { return true }
		p.emptied = ledger.WithoutThose(ledger.Fixed{pool.ID: usage}, all).Pool(pool.ID)
	})
	return p.emptied
}

// heldPool returns what is remembered of a pool, nil if nothing is that is still true.
func (h *Holders) heldPool(pool *inventory.NodePool) *heldPool {
	known, found := h.remembered.pools.Load(pool.Key)
	if !found {
		return nil
	}
	held := known.(*heldPool)
	if !held.isOf(ledger.Of(h.Ledger, pool)) || held.count.Load() != held.changes {
		h.remembered.pools.CompareAndDelete(pool.Key, known)
		return nil
	}
	return held
}

// remember has a pool remembered, and forgets those that nobody asks about any more, of nodes that are gone.
func (h *Holders) remember(pool *inventory.NodePool, held *heldPool) {
	h.remembered.pools.Store(pool.Key, held)
	if h.remembered.added.Add(1)%sweepAfter != 0 {
		return
	}
	h.remembered.pools.Range(func(key, known any) bool {
		if !known.(*heldPool).isOf(h.Ledger.Pool(key.(inventory.PoolKey).Value())) {
			h.remembered.pools.CompareAndDelete(key, known)
		}
		return true
	})
	h.remembered.verdicts.Range(func(name, known any) bool {
		if !slices.ContainsFunc(known.([]*verdict), func(v *verdict) bool { return v.isOf(h.Ledger) }) {
			h.remembered.forget(name.(string))
		}
		return true
	})
}

// isSteady reports whether a claim is held by pods on nodes only, and by none of a PodGroup. Of such a claim the ledger
// and ConsumerChanged tell when that changes.
func isSteady(use ledger.Use, pods []*v1.Pod) bool {
	return len(use.InFlight) == 0 && len(pods) == len(use.ReservedFor) &&
		!slices.ContainsFunc(pods, func(pod *v1.Pod) bool { return podgroup.NameOf(pod) != "" })
}

// of takes note of the pods that hold what is in use of the pool.
func (p *heldPool) of(pods []*v1.Pod) {
	p.highest, p.onlyOn = corev1helpers.PodPriority(pods[0]), pods[0].Spec.NodeName
	for _, pod := range pods[1:] {
		p.highest = max(p.highest, corev1helpers.PodPriority(pod))
		if pod.Spec.NodeName != p.onlyOn {
			p.onlyOn = ""
		}
	}
}

// PodChanged has to be called with what the API server has of a pod: before and after an event, nil if there was no
// such pod.
func PodChanged(claims *ledger.Ledger, before, after *v1.Pod) {
	if before != nil && after != nil && before.UID == after.UID {
		if before.Spec.NodeName != after.Spec.NodeName || hasEnded(before) != hasEnded(after) {
			claims.ConsumerChanged(after.UID)
		}
		return
	}
	for _, pod := range []*v1.Pod{before, after} {
		if pod != nil {
			claims.ConsumerChanged(pod.UID)
		}
	}
}
