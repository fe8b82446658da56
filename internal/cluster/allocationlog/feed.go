package allocationlog

import (
	"context"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// feed adapts an Log to the reflector. The reflector calls one method after the other from one
// goroutine. After Add, Update, Delete and bookmarks it calls UpdateResourceVersion (but not for
// the unordered events with which a watch without version begins); after Replace it does not.
type feed struct{ *Log }

var (
	_ cache.TransformingStore      = feed{}
	_ cache.ResourceVersionUpdater = feed{}
)

// Add is called for a new claim. A new claim is never allocated, so Add matters only for the events
// with which a watch without version begins.
func (f feed) Add(obj any) error {
	return f.event(obj, f.progress.upTo() == 0)
}

// Update is called for each write of a claim, in the order of the writes.
func (f feed) Update(obj any) error { return f.event(obj, false) }

// Delete is called for a deleted claim. It may be repeated, because UIDs are never reused.
func (f feed) Delete(obj any) error {
	claim, err := informer.As[resourceapi.ResourceClaim](obj)
	if err != nil {
		return err
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.remove(claim.UID)
	f.backlog.forget(claim)
	return nil
}

// Resync does nothing, because no derived state can get lost.
func (f feed) Resync() error { return nil }

// UpdateResourceVersion is called after all changes up to that version were applied.
func (f feed) UpdateResourceVersion(resourceVersion string) {
	if version, err := parseVersion(resourceVersion); err == nil {
		f.progress.advance(version)
	}
}

// Transformer makes the reflector drop unneeded fields of claims while it collects a list.
func (f feed) Transformer() cache.TransformFunc { return trimmed }

// trimmed drops fields that the package does not need. The object belongs to the reflector.
func trimmed(obj any) (any, error) {
	claim, err := informer.As[resourceapi.ResourceClaim](obj)
	if err != nil {
		return nil, err
	}
	claim.Labels, claim.Annotations, claim.OwnerReferences = nil, nil, nil
	claim.Spec = resourceapi.ResourceClaimSpec{}
	claim.Status.Devices = nil
	if len(claim.Status.ReservedFor) != 1 {
		claim.Status.ReservedFor = nil
	}
	if allocation := claim.Status.Allocation; allocation != nil {
		allocation.Devices.Config, allocation.NodeSelector = nil, nil
	}
	return claim, nil
}

// event applies one write. unordered means that the claim was written at any time up to its
// version.
func (f feed) event(obj any, unordered bool) error {
	claim, err := informer.As[resourceapi.ResourceClaim](obj)
	if err != nil {
		return err
	}
	version, err := parseVersion(claim.ResourceVersion)
	written := exactly(version)
	switch {
	case err != nil:
		written = anywhere
	case version <= f.progress.upTo():
		return nil // repeated
	case unordered:
		written.First = 0
	}
	f.mutex.Lock()
	var conflicts []Conflict
	if a := f.apply(claim, version, written); a != nil {
		if !a.listed && !unordered && err == nil {
			a.witness(claim)
		}
		f.noteArrival(a, f.clock.Now())
		conflicts = f.newConflicts(a)
	}
	report := f.onConflict
	f.mutex.Unlock()
	for _, conflict := range conflicts {
		report(conflict)
	}
	return nil
}

// apply stores the newer state of a claim. It returns the allocation if it is new, with the
// server's recorded time as the time of arrival.
func (o *Log) apply(claim *resourceapi.ResourceClaim, version uint64, written Span) *allocation {
	old, now := o.index.claims[claim.UID], o.clock.Now()
	if old != nil && old.isOf(claim) {
		old.seen = version
		return nil
	}
	var by author
	a := newAllocation(claim, version, written)
	if a != nil {
		by = authorOf(claim)
	}
	if o.backlog.note(claim, by, old != nil, o.progress.upTo() == 0, now) {
		o.hear(claim.Namespace, now)
	}
	o.remove(claim.UID)
	if a != nil {
		a.foreign, a.recorded = !by.ours, by.ours || len(by.others) > 0
		a.listed, a.arrived = o.progress.upTo() == 0, by.at
		o.index.add(a)
	}
	return a
}

// remove drops the allocation of a claim.
func (o *Log) remove(claim types.UID) {
	if a := o.index.claims[claim]; a != nil {
		o.index.remove(claim)
		o.noteChanges(a)
	}
}

// noteArrival sets the number and time of arrival of a new allocation.
func (o *Log) noteArrival(a *allocation, arrived time.Time) {
	o.allocations++
	a.id, a.arrived = o.allocations, arrived
	o.noteChanges(a)
	if a.foreign && len(a.uses) > 0 {
		o.noteForeign(a, arrived)
	}
}

// newConflicts returns the conflicts over devices of allocations that arrived together, if
// OnConflict is set. If two of them conflict with each other, the first one is Other.
func (o *Log) newConflicts(arrived ...*allocation) []Conflict {
	if o.onConflict == nil {
		return nil
	}
	var conflicts []Conflict
	next := make(map[types.UID]bool, len(arrived))
	for _, a := range arrived {
		next[a.ref.UID] = true
	}
	for _, a := range arrived {
		delete(next, a.ref.UID)
		f := &finder{index: &o.index, own: a}
		f.compareHolders()
		for _, conflict := range f.sorted() {
			if !next[conflict.Other.UID] {
				conflicts = append(conflicts, conflict)
			}
		}
	}
	return conflicts
}

// Run follows the claims until the context is done. It must be called once.
func (o *Log) Run(ctx context.Context) {
	claims := o.client.ResourceV1().ResourceClaims(metav1.NamespaceAll)
	listWatch := o.liveness.Observe(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return claims.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return claims.Watch(ctx, options)
		},
	})
	o.newReflector(cache.ToListWatcherWithWatchListSemantics(listWatch, o.client)).RunWithContext(ctx)
}

func (o *Log) newReflector(source cache.ListerWatcher) *cache.Reflector {
	return cache.NewReflectorWithOptions(source, &resourceapi.ResourceClaim{}, feed{o},
		cache.ReflectorOptions{Name: "order of allocations", Backoff: informer.Backoff()})
}
