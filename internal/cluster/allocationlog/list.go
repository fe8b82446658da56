package allocationlog

import (
	"cmp"
	"math"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// Replace applies a list: the state of all claims at one version. Readers never see a part of it.
func (f feed) Replace(objects []any, resourceVersion string) error {
	claims := make([]*resourceapi.ResourceClaim, len(objects))
	for i, obj := range objects {
		var err error
		if claims[i], err = informer.As[resourceapi.ResourceClaim](obj); err != nil {
			return err
		}
	}
	listed, conflicts, report := f.replace(claims, resourceVersion)
	f.progress.restart(listed)
	f.liveness.Replaced()
	for _, conflict := range conflicts {
		report(conflict)
	}
	return nil
}

func (o *Log) replace(claims []*resourceapi.ResourceClaim, resourceVersion string) (listed uint64, conflicts []Conflict, report func(Conflict)) {
	listed = versionOfList(claims, resourceVersion)
	before := o.progress.upTo()
	o.mutex.Lock()
	defer o.mutex.Unlock()
	forget := o.absentFrom(claims)
	var arrived []*allocation
	for _, claim := range claims {
		if a := o.applyListed(claim, before, listed < before); a != nil {
			arrived = append(arrived, a)
		}
	}
	forget()
	slices.SortFunc(arrived, func(a, b *allocation) int { return cmp.Compare(a.seen, b.seen) })
	for _, a := range arrived {
		o.noteArrival(a, o.arrivalOf(a))
	}
	return listed, o.newConflicts(arrived...), o.onConflict
}

// absentFrom returns a function that drops all claims but those of a list.
func (o *Log) absentFrom(claims []*resourceapi.ResourceClaim) (forget func()) {
	if len(o.index.claims) == 0 && !o.backlog.announcesAny() {
		o.index.claims = make(map[types.UID]*allocation, len(claims)) // This is the first list.
		return func() {}
	}
	present := make(map[types.UID]bool, len(claims))
	for _, claim := range claims {
		present[claim.UID] = true
	}
	return func() {
		for uid := range o.index.claims {
			if !present[uid] {
				o.remove(uid)
			}
		}
		o.backlog.keep(present)
	}
}

// applyListed stores the state of a claim from a list. before is the version up to which all writes
// had been delivered. It returns the allocation if it is new.
func (o *Log) applyListed(claim *resourceapi.ResourceClaim, before uint64, wentBack bool) *allocation {
	version, err := parseVersion(claim.ResourceVersion)
	if err != nil {
		version = math.MaxUint64
	}
	span := Span{before + 1, version}
	if before == 0 || wentBack || version <= before {
		span.First = 0
	}
	old := o.index.claims[claim.UID]
	switch {
	case old == nil || !old.isOf(claim):
		return o.apply(claim, version, span)
	case wentBack:
		old.written = span
	case old.seen == version && err == nil:
		return nil
	default:
		// The claim may have been deallocated, and allocated again by any scheduler, in between.
		old.written.Last = version
	}
	old.seen, old.foreign = version, old.foreign || !authorOf(claim).ours // Users can forge it by now.
	return nil
}

// arrivalOf returns the time of a new allocation in a list: the time that the server recorded if
// this is the first list, otherwise now.
func (o *Log) arrivalOf(a *allocation) time.Time {
	now := o.clock.Now()
	if a.listed && !a.arrived.IsZero() && a.arrived.Before(now) {
		return a.arrived
	}
	return now
}

// versionOfList returns the version up to which a list shows all writes. It is the version of the
// list, or that of its newest claim if that is later or the list has none.
func versionOfList(claims []*resourceapi.ResourceClaim, resourceVersion string) uint64 {
	listed, err := parseVersion(resourceVersion)
	if err != nil {
		listed = 0
	}
	for _, claim := range claims {
		if version, err := parseVersion(claim.ResourceVersion); err == nil {
			listed = max(listed, version)
		}
	}
	return listed
}
