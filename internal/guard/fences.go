package guard

import (
	"context"
	"math/rand/v2"
	"sync"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/types"
)

// fences holds the running fences of sweeps: at most fencers, and at most one for each claim. A slow fence does not
// delay the others. The zero value is empty.
type fences struct {
	once   sync.Once
	slots  *semaphore.Weighted
	claims sync.Map // of types.UID
}

// each calls a function for approvals, several at a time. It returns when all calls have ended, and after
// sweepInterval at the latest. Running calls then continue; the next sweep takes the rest.
func (f *fences) each(ctx context.Context, approvals []Approval, fence func(Approval)) {
	f.once.Do(func() { f.slots = semaphore.NewWeighted(fencers) })
	bounded, cancel := context.WithTimeout(ctx, sweepInterval)
	defer cancel()
	for _, i := range rand.Perm(len(approvals)) { // A random order, so that no approval is always the last.
		if !f.begin(bounded, approvals[i].Claim.UID) {
			continue
		}
		go func() {
			defer f.end(approvals[i].Claim.UID)
			fence(approvals[i])
		}()
	}
	if f.slots.Acquire(bounded, fencers) == nil {
		f.slots.Release(fencers)
	}
}

// begin reports whether a claim can be fenced now. It waits for a slot.
func (f *fences) begin(ctx context.Context, claim types.UID) bool {
	if _, busy := f.claims.LoadOrStore(claim, nil); busy {
		return false
	}
	if f.slots.Acquire(ctx, 1) != nil {
		f.claims.Delete(claim)
		return false
	}
	return true
}

// end ends what begin has begun.
func (f *fences) end(claim types.UID) {
	f.claims.Delete(claim)
	f.slots.Release(1)
}
