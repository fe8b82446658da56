package preemption

import (
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// remembered caches the pools whose used devices are all held by pods on nodes. In a full cluster nearly all pools
// are like that, and need not be analyzed for each attempt again.
type remembered struct {
	pools    sync.Map // inventory.PoolKey to *heldPool
	verdicts sync.Map // name of a node to []*verdict, never empty
	// bytes is the size of all verdicts. The mutex guards changes of both.
	bytes int
	mutex sync.Mutex
	// added counts the pools that were ever added.
	added atomic.Int64
}

// sweepAfter is the number of added pools after which outdated pools are removed.
const sweepAfter = 4096

// A heldPool is a pool whose used devices are all held by pods on nodes, none of them of a PodGroup.
type heldPool struct {
	// usage is the ledger's usage of the pool, and changes the value of count, both at the time of the analysis. As
	// long as they are the same, so are the pods. The pointer is weak so that usages which the ledger drops can be
	// freed.
	usage   weak.Pointer[ledger.PoolUsage]
	count   *atomic.Uint64
	changes uint64
	// claims hold the used devices, by UID, for pods of priority highest at most.
	claims  []types.UID
	highest int32
	// onlyOn is the node of all these pods, "" if they are on several.
	onlyOn string

	once    sync.Once
	emptied *ledger.PoolUsage
}

// isOf reports whether usage is the one that was analyzed.
func (p *heldPool) isOf(usage *ledger.PoolUsage) bool {
	return usage != nil && p.usage.Value() == usage
}

// without returns the usage of the pool without these claims. usage must be the one that was analyzed.
func (p *heldPool) without(pool *inventory.NodePool, usage *ledger.PoolUsage) *ledger.PoolUsage {
	p.once.Do(func() {
		all := func(types.UID) bool { return true }
		p.emptied = ledger.Without(ledger.Fixed{pool.ID: usage}, all).Pool(pool.ID)
	})
	return p.emptied
}

// heldPool returns the cached pool, nil if there is none or if it is outdated.
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

// remember caches a pool. Once in a while it removes the pools and verdicts that are outdated, for example
// those of deleted nodes.
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

// isSteady reports whether only pods on nodes hold a claim, and none of a PodGroup. The ledger and ConsumerChanged
// notice when that ends.
func isSteady(use ledger.Use, pods []*v1.Pod) bool {
	return len(use.InFlight) == 0 && len(pods) == len(use.ReservedFor) &&
		!slices.ContainsFunc(pods, func(pod *v1.Pod) bool { return dra.PodGroupName(pod) != "" || pod.Spec.NodeName == "" })
}

// of stores the highest priority and the common node of the pods that hold the pool's used devices.
func (p *heldPool) of(pods []*v1.Pod) {
	p.highest, p.onlyOn = corev1helpers.PodPriority(pods[0]), pods[0].Spec.NodeName
	for _, pod := range pods[1:] {
		p.highest = max(p.highest, corev1helpers.PodPriority(pod))
		if pod.Spec.NodeName != p.onlyOn {
			p.onlyOn = ""
		}
	}
}

// PodChanged must be called for each event about a pod: before and after are the API server's versions, nil if
// there was none.
func PodChanged(claims *ledger.Ledger, before, after *v1.Pod) {
	if before != nil && after != nil && before.UID == after.UID {
		if before.Spec.NodeName != after.Spec.NodeName || dra.HasEnded(before) != dra.HasEnded(after) {
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
