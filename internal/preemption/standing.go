package preemption

import (
	"cmp"
	"slices"
	"sync"
	"weak"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Standing says which claims are in the way of a pod of some priority for the time being only. It is for one
// attempt to schedule the pod, and safe for concurrent use.
type Standing struct {
	// WithoutEnding is what is in use apart from claims that are about to be deallocated, because all that used
	// them have ended; WithoutBelow has neither those nor the claims of pods of lower priority.
	WithoutEnding, WithoutBelow ledger.View

	holders  *Holders
	usage    ledger.View
	priority int32
	// own are the pod's own claims.
	own map[types.UID]bool
	// question is what verdicts about nodes are remembered for; see Ask.
	question question

	mutex  sync.Mutex
	claims map[types.UID]claimStanding
	pools  map[inventory.PoolID]poolStanding
	uses   map[types.UID][]ledger.Use // by pod
}

// claimStanding is the standing of a claim, and the pods that have to go for it if that is below.
type claimStanding struct {
	standing
	pods []*v1.Pod
	// steady is set if it stays so until the ledger tells.
	steady bool
}

// poolStanding is the same for a pool: below are its claims of that standing.
type poolStanding struct {
	Tally
	below []types.UID
}

// Tally is how many claims hold devices for the time being only.
type Tally struct {
	Below, Ending int
}

type standing byte

const (
	lasting standing = iota
	below
	ending
)

// NewStanding makes one for what is in use in the eyes of a pod of that priority. Its own claims stay allocated,
// whoever else uses them.
func NewStanding(holders *Holders, usage ledger.View, priority int32, own ...types.UID) *Standing {
	s := &Standing{
		holders: holders, usage: usage, priority: priority, own: make(map[types.UID]bool),
		claims: make(map[types.UID]claimStanding), pools: make(map[inventory.PoolID]poolStanding),
		uses: make(map[types.UID][]ledger.Use),
	}
	for _, claim := range own {
		s.own[claim] = true
		s.claims[claim] = claimStanding{}
	}
	s.WithoutEnding = &without{
		standing: s, held: func(_ *heldPool, _ *inventory.NodePool, usage *ledger.PoolUsage) *ledger.PoolUsage { return usage },
		View: ledger.WithoutThose(usage, func(claim types.UID) bool { return s.of(claim).standing == ending }),
	}
	s.WithoutBelow = &without{
		standing: s, held: (*heldPool).without,
		View: ledger.WithoutThose(usage, func(claim types.UID) bool { return s.of(claim).standing != lasting }),
	}
	return s
}

// without is a view of what is in use without some claims, which needs not look at the claims of pools that are
// remembered.
type without struct {
	ledger.View
	standing *Standing
	// held is what is in use then of a pool that is held by pods of lower priority, of which that usage is in use now.
	held func(*heldPool, *inventory.NodePool, *ledger.PoolUsage) *ledger.PoolUsage
}

// OfPool implements ledger.ByPool.
func (w *without) OfPool(pool *inventory.NodePool) *ledger.PoolUsage {
	if held, usage := w.standing.heldUsage(pool); held != nil {
		return w.held(held, pool, usage)
	}
	return ledger.Of(w.View, pool)
}

// heldBelow returns what is remembered of a pool if that is held by pods of lower priority only, else nil.
func (s *Standing) heldBelow(pool *inventory.NodePool) *heldPool {
	held, _ := s.heldUsage(pool)
	return held
}

// heldUsage is heldBelow, with what is in use: what is remembered does not keep that.
func (s *Standing) heldUsage(pool *inventory.NodePool) (*heldPool, *ledger.PoolUsage) {
	held, usage := s.holders.heldPool(pool), ledger.Of(s.usage, pool)
	if held == nil || held.highest >= s.priority || !held.isOf(usage) ||
		len(s.own) > 0 && slices.ContainsFunc(held.claims, func(claim types.UID) bool { return s.own[claim] }) {
		return nil, nil
	}
	return held, usage
}

// of returns the standing of a claim.
func (s *Standing) of(claim types.UID) claimStanding {
	standing, _ := s.lookUp(claim)
	return standing
}

// lookUp returns the standing of a claim, and whether that was found out just now.
func (s *Standing) lookUp(claim types.UID) (standing claimStanding, fresh bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	standing, found := s.claims[claim]
	if !found {
		standing = s.holders.standing(claim, s.priority)
		s.claims[claim] = standing
	}
	return standing, !found
}

// In counts the claims that hold devices of some pools.
func (s *Standing) In(pools []*inventory.NodePool) (sum Tally) {
	for _, pool := range pools {
		tally := s.in(pool)
		sum.Below += tally.Below
		sum.Ending += tally.Ending
	}
	return sum
}

// in counts the claims that hold devices of a pool on any node.
func (s *Standing) in(pool *inventory.NodePool) poolStanding {
	if held := s.heldBelow(pool); held != nil {
		return poolStanding{Tally: Tally{Below: len(held.claims)}, below: held.claims}
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

// find is in for a pool that was not looked at before. It is remembered, if it may be.
func (s *Standing) find(pool *inventory.NodePool) (known poolStanding) {
	usage := ledger.Of(s.usage, pool)
	claims := claimsIn(usage)
	if len(claims) == 0 {
		return known
	}
	held := &heldPool{usage: weak.Make(usage), count: s.holders.Ledger.ConsumerChanges(pool.Key)}
	held.changes = held.count.Load()
	steady := usage == ledger.Of(s.holders.Ledger, pool)
	var pods []*v1.Pod
	for claim := range claims {
		of, fresh := s.lookUp(claim)
		switch of.standing {
		case below:
			known.below = append(known.below, claim)
			pods = append(pods, of.pods...)
		case ending:
			known.Ending++
		case lasting:
		}
		// What was found out earlier in the attempt may be older than the count of changes.
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

// claimsIn returns the claims that hold devices, or shares of them.
func claimsIn(usage *ledger.PoolUsage) map[types.UID]bool {
	claims := make(map[types.UID]bool)
	for _, use := range usage.All() {
		for _, holder := range use.Holders {
			claims[holder.UID] = true
		}
		for _, share := range use.Shares {
			claims[share.Holder.UID] = true
		}
	}
	return claims
}

// Without returns what is in use if some pods of lower priority were gone. What is about to be deallocated is not.
func (s *Standing) Without(gone map[types.UID]*v1.Pod) ledger.View {
	var released []ledger.Use
	for _, pod := range gone {
		for _, use := range s.usesOf(pod) {
			seen := slices.ContainsFunc(released, func(other ledger.Use) bool { return other.Claim.UID == use.Claim.UID })
			if of := s.of(use.Claim.UID); !seen && of.standing == below &&
				!slices.ContainsFunc(of.pods, func(pod *v1.Pod) bool { return gone[pod.UID] == nil }) {
				released = append(released, use)
			}
		}
	}
	return ledger.WhatIf(s.WithoutEnding, released, nil)
}

// usesOf returns what the claims of a pod hold.
func (s *Standing) usesOf(pod *v1.Pod) []ledger.Use {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	uses, found := s.uses[pod.UID]
	if !found {
		uses = s.holders.UsesOf(pod)
		s.uses[pod.UID] = uses
	}
	return uses
}

// Ending returns the claims that are about to be deallocated, as far as anybody has looked at their devices.
func (s *Standing) Ending() (claims []ledger.ClaimRef) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for claim, standing := range s.claims {
		if standing.standing == ending {
			claims = append(claims, s.holders.Ledger.State(claim).Ref)
		}
	}
	return claims
}

// Elsewhere returns the pods of lower priority that hold devices of some pools on other nodes than the one of
// that name.
func (s *Standing) Elsewhere(pools []*inventory.NodePool, node string) []*v1.Pod {
	var pods []*v1.Pod
	seen := make(map[types.UID]bool)
	for _, pool := range pools {
		if held := s.heldBelow(pool); held != nil && held.onlyOn == node {
			continue // As in most pools.
		}
		for _, claim := range s.in(pool).below {
			for _, pod := range s.of(claim).pods {
				if !seen[pod.UID] && pod.Spec.NodeName != node {
					seen[pod.UID] = true
					pods = append(pods, pod)
				}
			}
		}
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return pods
}
