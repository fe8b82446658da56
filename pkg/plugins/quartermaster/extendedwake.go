package quartermaster

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// extendedWant is what a waiting pod wants for its extended resources.
type extendedWant struct {
	// claim is the one that would be made where devices have to serve all of them.
	claim *resourceapi.ResourceClaim
	// leftOver is set if an earlier attempt has left a claim that may be in the way.
	leftOver bool
}

// wantsExtended notes what the attempt found out about the pod's extended resources.
func (p *waitingPod) wantsExtended(e *extendedDemand) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.extended = extendedWant{claim: e.full.claim, leftOver: e.found != nil || len(e.obsolete) > 0}
}

func (p *waitingPod) wantedExtended() extendedWant {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.extended
}

// claimsWanted is claimsOf with the claim that would be made for the pod's extended
// resources, as of the latest attempt.
func (pl *Quartermaster) claimsWanted(pod *v1.Pod) ([]*resourceapi.ResourceClaim, error) {
	claims, err := pl.claimsOf(pod)
	if err != nil || !pl.features.EnableDRAExtendedResource {
		return claims, err
	}
	if entry := pl.waiting.get(pod.UID); entry != nil {
		if extended := entry.wantedExtended(); extended.claim != nil {
			claims = append(claims, extended.claim)
		}
	}
	return claims, nil
}

// mayServe reports whether a class stands for an extended resource of the pod, or did so
// before it changed: another class may do so now.
func (pl *Quartermaster) mayServe(pod *v1.Pod, before any, class *resourceapi.DeviceClass) bool {
	if !pl.features.EnableDRAExtendedResource {
		return false
	}
	old, changed := before.(*resourceapi.DeviceClass)
	return asksFor(pod, class) || changed && asksFor(pod, old)
}

// wakeOwner wakes the pod that waits for the end of a claim that an earlier attempt made
// for its extended resources. The claim of a failed attempt ends as well, and that pod has
// to wait as long as after other failures.
func (e *claimEvents) wakeOwner(claim *resourceapi.ResourceClaim) {
	owner := ownerOfExtendedClaim(claim)
	if owner == "" {
		return
	}
	if entry := e.pl.waiting.get(owner); entry != nil && entry.wantedExtended().leftOver {
		e.pl.waker.wakeAtOnce(entry)
	}
}
