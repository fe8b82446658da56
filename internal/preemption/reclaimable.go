package preemption

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"weak"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Reclaimable classifies claims: which ones could stop being in the way of a pod of some priority. It is valid
// for one attempt to schedule the pod, and safe for concurrent use.
type Reclaimable struct {
	// WithoutEnding is the usage without claims that are about to be deallocated, because all their pods have
	// ended. WithoutLowerPriority also lacks the claims of pods of lower priority.
	WithoutEnding, WithoutLowerPriority ledger.View

	holders  *Holders
	usage    ledger.View
	priority int32
	// own holds the claims that last for the pod, even if all their pods are evicted.
	own map[types.UID]bool
	// question is the key of cached verdicts about nodes; see Ask.
	question question

	mutex  sync.Mutex
	claims map[types.UID]claimState
	pools  map[inventory.PoolID]poolState
	uses   map[types.UID][]ledger.Use // by pod
	// wanted holds the results of wantedIn.
	wanted map[wantedKey][]types.UID
}

// claimState is the state of a claim; pods are those to evict if it is below.
type claimState struct {
	keeping
	pods []*v1.Pod
	// steady is set if the state holds until the ledger reports a change.
	steady bool
}

// poolState counts the claims in a pool, and lists those that are below.
type poolState struct {
	Tally
	below []types.UID
}

// Tally counts the claims that hold devices only for now.
type Tally struct {
	Below, Ending int
}

// keeping says for how long the holders of a claim keep it.
type keeping byte

const (
	lasting keeping = iota
	below
	ending
)

// NewReclaimable returns a Reclaimable over the given usage for a pod of the given priority. The pod's own claims, and those that are held for
// others, stay allocated, even if all other consumers go.
func NewReclaimable(holders *Holders, usage ledger.View, priority int32, own ...types.UID) *Reclaimable {
	s := &Reclaimable{
		holders: holders, usage: usage, priority: priority, own: make(map[types.UID]bool),
		claims: make(map[types.UID]claimState), pools: make(map[inventory.PoolID]poolState),
		uses: make(map[types.UID][]ledger.Use), wanted: make(map[wantedKey][]types.UID),
	}
	for _, claim := range own {
		s.own[claim] = true
		s.claims[claim] = claimState{}
	}
	s.WithoutEnding = &without{
		reclaimable: s, held: func(_ *heldPool, _ *inventory.NodePool, usage *ledger.PoolUsage) *ledger.PoolUsage { return usage },
		View: ledger.Without(usage, func(claim types.UID) bool { return s.of(claim).keeping == ending }),
	}
	s.WithoutLowerPriority = &without{
		reclaimable: s, held: (*heldPool).without,
		View: ledger.Without(usage, func(claim types.UID) bool { return s.of(claim).keeping != lasting }),
	}
	return s
}

// without is a view of the usage without some claims. For cached pools it does not look at each claim.
type without struct {
	ledger.View
	reclaimable *Reclaimable
	// held returns the resulting usage of a pool that pods of lower priority hold, from its current usage.
	held func(*heldPool, *inventory.NodePool, *ledger.PoolUsage) *ledger.PoolUsage
}

// OfPool implements ledger.ByPool.
func (w *without) OfPool(pool *inventory.NodePool) *ledger.PoolUsage {
	if held, usage := w.reclaimable.heldUsage(pool); held != nil {
		return w.held(held, pool, usage)
	}
	return ledger.Of(w.View, pool)
}

// heldBelow returns the cached pool if pods of lower priority hold all its used devices, else nil.
func (s *Reclaimable) heldBelow(pool *inventory.NodePool) *heldPool {
	held, _ := s.heldUsage(pool)
	return held
}

// heldUsage does the same as heldBelow, and also returns the pool's usage: the cache has only a weak pointer to it.
func (s *Reclaimable) heldUsage(pool *inventory.NodePool) (*heldPool, *ledger.PoolUsage) {
	held, usage := s.holders.heldPool(pool), ledger.Of(s.usage, pool)
	if held == nil || held.highest >= s.priority || !held.isOf(usage) {
		return nil, nil
	}
	if s.hasOwn(held) {
		return nil, nil
	}
	return held, usage
}

// hasOwn reports whether the pod's own claims are among those of a pool. A gang may have a thousand claims, a pool that all nodes reach as well.
func (s *Reclaimable) hasOwn(held *heldPool) bool {
	if len(held.claims) < len(s.own) {
		return slices.ContainsFunc(held.claims, func(claim types.UID) bool { return s.own[claim] })
	}
	for claim := range s.own {
		if _, found := slices.BinarySearch(held.claims, claim); found {
			return true
		}
	}
	return false
}

// of returns the state of a claim.
func (s *Reclaimable) of(claim types.UID) claimState {
	state, _ := s.lookUp(claim)
	return state
}

// lookUp returns the state of a claim, and whether this call determined it.
func (s *Reclaimable) lookUp(claim types.UID) (state claimState, fresh bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	state, found := s.claims[claim]
	if !found {
		state = s.holders.stateOf(claim, s.priority)
		s.claims[claim] = state
	}
	return state, !found
}

// In counts the claims that hold devices only for now, in some pools.
func (s *Reclaimable) In(pools []*inventory.NodePool) (sum Tally) {
	for _, pool := range pools {
		tally := s.in(pool)
		sum.Below += tally.Below
		sum.Ending += tally.Ending
	}
	return sum
}

// in counts the claims that hold devices of a pool only for now, on any node.
func (s *Reclaimable) in(pool *inventory.NodePool) poolState {
	if held := s.heldBelow(pool); held != nil {
		return poolState{Tally: Tally{Below: len(held.claims)}, below: held.claims}
	}
	s.mutex.Lock()
	known, found := s.pools[pool.ID]
	s.mutex.Unlock()
	if found {
		return known
	}
	known = s.find(pool)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.pools[pool.ID] = known
	return known
}

// find determines what in returns for a pool that was not looked at before. It caches the result if
// all of it is steady.
func (s *Reclaimable) find(pool *inventory.NodePool) (known poolState) {
	usage := ledger.Of(s.usage, pool)
	claims := usage.Claims()
	if len(claims) == 0 {
		return known
	}
	held := &heldPool{usage: weak.Make(usage), count: s.holders.Ledger.ConsumerChanges(pool.Key)}
	held.changes = held.count.Load()
	steady := usage == ledger.Of(s.holders.Ledger, pool)
	var pods []*v1.Pod
	for _, claim := range claims {
		of, fresh := s.lookUp(claim)
		switch of.keeping {
		case below:
			known.below = append(known.below, claim)
			pods = append(pods, of.pods...)
		case ending:
			known.Ending++
		case lasting:
		}
		// A state from earlier in the attempt may be older than held.changes.
		steady = steady && fresh && of.steady
	}
	known.Below = len(known.below)
	if steady {
		held.claims = known.below
		held.of(pods)
		s.holders.remember(pool, held)
	}
	return known
}

// Without returns the usage as it is once the given pods of lower priority are gone. It leaves out claims that are
// about to be deallocated.
func (s *Reclaimable) Without(gone map[types.UID]*v1.Pod) ledger.View {
	var released []ledger.Use
	judged := make(map[types.UID]bool) // Hundreds of pods may share a claim.
	for _, pod := range gone {
		for _, use := range s.usesOf(pod) {
			if judged[use.Claim.UID] {
				continue
			}
			judged[use.Claim.UID] = true
			if of := s.of(use.Claim.UID); of.keeping == below && !slices.ContainsFunc(of.pods, func(pod *v1.Pod) bool { return gone[pod.UID] == nil }) {
				released = append(released, use)
			}
		}
	}
	return ledger.WhatIf(s.WithoutEnding, released, nil)
}

// released returns the uses without those of claims that last.
func (s *Reclaimable) released(uses []ledger.Use) []ledger.Use {
	return slices.DeleteFunc(slices.Clone(uses), func(use ledger.Use) bool { return s.own[use.Claim.UID] })
}

// usesOf returns the uses of a pod's claims.
func (s *Reclaimable) usesOf(pod *v1.Pod) []ledger.Use {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	uses, found := s.uses[pod.UID]
	if !found {
		uses = s.holders.UsesOf(pod)
		s.uses[pod.UID] = uses
	}
	return uses
}

// Ending returns the claims that are about to be deallocated, among those looked at so far.
func (s *Reclaimable) Ending() (claims []ledger.ClaimRef) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for claim, state := range s.claims {
		if state.keeping == ending {
			claims = append(claims, s.holders.Ledger.State(claim).Ref)
		}
	}
	return claims
}

// Wanting knows which devices a pod may get. Who holds other devices is not in its way. A *allocator.Task is one.
type Wanting interface {
	// Interested reports whether the pod may get any of the named devices of a pool, or any at all if there are no names.
	Interested(ctx context.Context, pool *inventory.NodePool, devices ...string) bool
}

type wantedKey struct {
	by   Wanting
	pool *inventory.NodePool
}

// Elsewhere returns the pods of lower priority that hold wanted devices, except pods on the given node, "" for none.
func (s *Reclaimable) Elsewhere(ctx context.Context, pools []*inventory.NodePool, node string, by Wanting) []*v1.Pod {
	var pods []*v1.Pod
	seen := make(map[types.UID]bool)
	for _, claim := range s.inTheWay(ctx, pools, node, by) {
		for _, pod := range s.of(claim).pods {
			if !seen[pod.UID] && (node == "" || pod.Spec.NodeName != node) {
				seen[pod.UID] = true
				pods = append(pods, pod)
			}
		}
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return pods
}

// inTheWay returns the claims of pods of lower priority that hold wanted devices, each once. It leaves out pools that only pods on the
// given node hold, "" for none.
func (s *Reclaimable) inTheWay(ctx context.Context, pools []*inventory.NodePool, node string, by Wanting) (claims []types.UID) {
	for _, pool := range pools {
		if held := s.heldBelow(pool); held != nil && node != "" && held.onlyOn == node {
			continue // As in most pools.
		}
		switch wanted := s.wantedIn(ctx, pool, by); {
		case len(claims) == 0:
			claims = wanted // As on most nodes. All nodes that reach the pool share the list.
		case len(wanted) > 0:
			claims = append(slices.Clip(claims), wanted...)
			slices.Sort(claims)
			claims = slices.Compact(claims)
		}
	}
	return claims
}

// wantedIn returns the claims of pods of lower priority that hold wanted devices of a pool. It looks at the claims of a pool that all nodes
// reach once.
func (s *Reclaimable) wantedIn(ctx context.Context, pool *inventory.NodePool, by Wanting) []types.UID {
	below := s.in(pool).below
	if len(below) == 0 || !by.Interested(ctx, pool) {
		return nil
	}
	key := wantedKey{by, pool}
	s.mutex.Lock()
	wanted, known := s.wanted[key]
	s.mutex.Unlock()
	if known {
		return wanted
	}
	for _, claim := range below {
		if by.Interested(ctx, pool, s.holders.Ledger.UseOf(claim).DevicesIn(pool.ID)...) {
			wanted = append(wanted, claim)
		}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.wanted[key] = wanted
	return wanted
}
