package guard

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/pager"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

const (
	// catchUpInterval is the interval of the checks whether the ledger has caught up. After each catchUpLooks checks,
	// the guard asks the server whether the claims still exist.
	catchUpInterval = 10 * time.Millisecond
	catchUpLooks    = 100
	// retryInterval is the pause after a failed request.
	retryInterval = time.Second
	// fencers is the number of claims that are fenced at a time.
	fencers = 16
	// fenceTimeout limits each of their requests, so that a hanging request does not delay other fences.
	fenceTimeout = 5 * time.Second
)

// TakeOver makes sure that no allocation unknown to this process can be stored any more, and then makes it decide in
// a tenure, see Handover. Call it when the process has got the Lease. It returns an error only if the context ends.
func (g *Guard) TakeOver(ctx context.Context, tenure Tenure, fencer *Fencer, of *ledger.Ledger) error {
	began := time.Now()
	claims, err := fencer.list(ctx)
	if err != nil {
		return err
	}
	t := NewHandover(claims)
	if err := fencer.fenceAll(ctx, t); err != nil {
		return err
	}
	byUID := make(map[types.UID]Listed, len(claims))
	for _, claim := range claims {
		byUID[claim.UID] = claim
	}
	if err := fencer.catchUp(ctx, t, of, byUID); err != nil {
		return err
	}
	g.Book.Decide(tenure)
	klog.FromContext(ctx).Info("This process decides about allocations", "claims", len(claims), "after", time.Since(began).Round(time.Millisecond))
	return nil
}

// list returns all current claims: it bypasses the API server's cache.
func (f *Fencer) list(ctx context.Context) (claims []Listed, err error) {
	page := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return f.Claims.ResourceClaims(metav1.NamespaceAll).List(ctx, options)
	})
	err = again(ctx, "list claims", func(ctx context.Context) error {
		claims = nil
		return page.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
			if claim, ok := object.(*resourceapi.ResourceClaim); ok {
				claims = append(claims, Listed{ledger.RefTo(claim), claim.ResourceVersion, claim.Status.Allocation != nil})
			}
			return nil
		})
	})
	return claims, err
}

// fenceAll fences all claims that need it. Approved writes can arrive until the API servers' request timeout ends;
// until then, it keeps trying to fence claims that cannot be written to (a policy may forbid it).
func (f *Fencer) fenceAll(ctx context.Context, t *Handover) error {
	bounded, cancel := context.WithTimeout(ctx, f.RequestTimeout)
	defer cancel()
	return f.fenceWithin(ctx, bounded, t)
}

// fenceWithin works like fenceAll, with the bounded context for the timeout. It retries failed claims after all
// others, after a pause. When the time is over, every earlier request has arrived or never will: then it is enough
// that the ledger knows the remaining claims at their current version.
func (f *Fencer) fenceWithin(ctx, bounded context.Context, t *Handover) error {
	for pause := retryInterval; ; pause = min(2*pause, maxPause) {
		err := f.each(bounded, t, func(ctx context.Context, claim Listed) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, fenceTimeout)
			defer cancel()
			return f.Fence(ctx, claim.ClaimRef, claim.Version)
		})
		if err == nil {
			return nil
		}
		if bounded.Err() == nil {
			klog.FromContext(ctx).Error(err, "Cannot fence all claims to take over from another guard; trying again", "claims", len(t.ToFence()), "after", pause)
		}
		select {
		case <-time.After(pause):
			continue
		case <-bounded.Done():
		}
		break
	}
	return again(ctx, "read the claims that cannot be fenced", func(ctx context.Context) error { return f.each(ctx, t, f.version) })
}

// each calls a function for all claims that must be fenced, several at a time. If the call succeeds, the claim counts
// as fenced at the returned version. each returns one of the errors.
func (f *Fencer) each(ctx context.Context, t *Handover, fence func(context.Context, Listed) (string, error)) error {
	var mutex sync.Mutex
	var group errgroup.Group // A failed call does not cancel the others.
	group.SetLimit(fencers)
	for _, claim := range t.ToFence() {
		group.Go(func() error {
			version, err := fence(ctx, claim)
			if err == nil {
				mutex.Lock()
				defer mutex.Unlock()
				t.Fenced(claim.UID, version)
			}
			return err
		})
	}
	return group.Wait()
}

// version returns the server's version of a claim, "" if it is gone.
func (f *Fencer) version(ctx context.Context, claim Listed) (string, error) {
	found, err := f.get(ctx, claim.ClaimRef)
	if err != nil || found == nil {
		return "", err
	}
	return found.ResourceVersion, nil
}

// catchUp waits until the ledger knows all awaited versions.
func (f *Fencer) catchUp(ctx context.Context, t *Handover, of *ledger.Ledger, claims map[types.UID]Listed) error {
	for looks := 1; ; looks++ {
		missing := t.Missing(of)
		if len(missing) == 0 {
			return nil
		}
		if looks%catchUpLooks == 0 { // The missing claims may have been deleted.
			for _, claim := range missing {
				if found, err := f.get(ctx, claims[claim].ClaimRef); err == nil && found == nil {
					t.Gone(claim)
				}
			}
		}
		select {
		case <-time.After(catchUpInterval):
		case <-ctx.Done():
			return fmt.Errorf("waiting for the watch of claims to show %d of them as they are: %w", len(missing), context.Cause(ctx))
		}
	}
}

// again retries a function until it succeeds or the context ends.
func again(ctx context.Context, what string, try func(context.Context) error) error {
	return wait.PollUntilContextCancel(ctx, retryInterval, true, func(ctx context.Context) (bool, error) {
		err := try(ctx)
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Cannot "+what+" to take over from another guard; trying again")
		}
		return err == nil, nil
	})
}
