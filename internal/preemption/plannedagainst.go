package preemption

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// OwnClaims returns the claims of some pods.
func (p *NominatedDevices) OwnClaims(pods ...*v1.Pod) sets.Set[types.UID] {
	own := sets.New[types.UID]()
	for _, pod := range pods {
		claims, _ := p.Needs.Claims.Of(pod) // A pod whose claims are not known gets no devices.
		for _, claim := range claims {
			own.Insert(claim.UID)
		}
	}
	return own
}

// UsageFor returns the usage that a pod must respect: it includes devices kept for other nominated pods, except for
// pods of lower priority, and those held for others, such as pods that wait. own are the claims of all pods that are planned with the pod, nil
// if it is tried alone. kept reports whether devices of a pool are kept; it is nil if none are.
func (p *NominatedDevices) UsageFor(pod *v1.Pod, own sets.Set[types.UID], held ...ledger.Use) (usage ledger.View, kept func(inventory.PoolID) bool) {
	against := p.PlannedAgainst(pod, p.Holders.Priority(pod), own, held...)
	if len(against) == 0 {
		if p.areNone() {
			p.kept.forget()
		}
		return p.Holders.Ledger, nil
	}
	view := p.kept.keeping(p.Holders.Ledger, against)
	return view, view.keepsIn
}

// PlannedAgainst returns the allocations that are planned for other nominated pods, unless the claims have got their devices, and those
// held for others. A pod of some priority must leave them alone. The uses of its own claims, and of those of the pods that are planned with it,
// are not among them: what is kept for a claim is kept for all pods that share it. The claim would otherwise get other devices, or none, until
// the pod that it is kept for gives up. Devices that several plans have for one claim count once.
func (p *NominatedDevices) PlannedAgainst(pod *v1.Pod, priority int32, own sets.Set[types.UID], held ...ledger.Use) (against []ledger.Use) {
	for _, nomination := range p.Against(pod, priority, time.Now()) {
		against = append(against, p.openOf(nomination)...)
	}
	if against = append(against, held...); len(against) == 0 {
		return nil
	}
	if own == nil {
		own = p.OwnClaims(pod)
	}
	counted := make(map[types.UID][]ledger.Use)
	return slices.DeleteFunc(against, func(use ledger.Use) bool {
		claim := use.Claim.UID
		again := own.Has(claim) || slices.ContainsFunc(counted[claim], func(before ledger.Use) bool { return haveSameDevices(before, use) })
		counted[claim] = append(counted[claim], use)
		return again
	})
}

// haveSameDevices reports whether two plans for a claim have the same devices, or parts of these.
func haveSameDevices(a, b ledger.Use) bool { return slices.Equal(devicesOf(a), devicesOf(b)) }

// PlannedFor returns the nomination of another pod for which others are being evicted, and according to which one of some claims gets devices; nil
// if there is none.
func (p *NominatedDevices) PlannedFor(pod *v1.Pod, claims []*resourceapi.ResourceClaim) *Nomination {
	of := func(use ledger.Use) bool {
		return slices.ContainsFunc(claims, func(claim *resourceapi.ResourceClaim) bool { return claim.UID == use.Claim.UID })
	}
	for _, nomination := range p.Against(pod, p.Holders.Priority(pod), time.Now()) {
		if slices.ContainsFunc(p.openOf(nomination), of) && p.isEvicting(nomination) {
			return nomination
		}
	}
	return nil
}

// isEvicting reports whether victims of a nomination are leaving, or are about to be evicted: that is done in the background.
func (p *NominatedDevices) isEvicting(nomination *Nomination) bool {
	if len(p.Holders.Leaving(nomination)) > 0 {
		return true
	}
	return time.Since(nomination.Since) < longestStop && slices.ContainsFunc(nomination.Victims, func(victim *v1.Pod) bool {
		latest := p.Holders.Claims.Pod(victim.Namespace, victim.Name)
		return latest != nil && latest.UID == victim.UID && !isGoing(latest)
	})
}

// Open returns those allocations in the plan for a pod that are not in the ledger yet.
func (p *NominatedDevices) Open(pod types.UID, plan []ledger.Use) (open []ledger.Use) {
	if p.IsInFlight(pod) {
		return nil
	}
	for _, use := range plan {
		// The claim that is made for extended resources has another UID than planned.
		if p.Holders.Ledger.UseOf(use.Claim.UID).Allocation == nil && (use.Claim.Name != "" || !p.Needs.HasBacking(use.Claim.Namespace, pod)) {
			open = append(open, use)
		}
	}
	return open
}

// openOf returns those allocations that are kept for a nominated pod and are not in the ledger yet. A claim that was deleted gets none.
func (p *NominatedDevices) openOf(nomination *Nomination) []ledger.Use {
	return slices.DeleteFunc(p.Open(nomination.Pod, nomination.kept()), func(use ledger.Use) bool {
		if use.Claim.Name == "" {
			return false
		}
		claim := p.Needs.Claims.Claim(use.Claim.Namespace, use.Claim.Name)
		return claim == nil || claim.UID != use.Claim.UID
	})
}

// IsInFlight reports whether the ledger has devices for a pod that the API server is not known to have stored.
func (p *NominatedDevices) IsInFlight(pod types.UID) bool {
	return slices.ContainsFunc(p.Holders.Ledger.UsesBy(pod), func(use ledger.Use) bool { return slices.Contains(use.InFlight, pod) })
}
