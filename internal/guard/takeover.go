package guard

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/pager"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/objectversion"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

const (
	// takeoverInterval is how often to look whether the ledger has caught up, and retryInterval
	// how long to wait after a request that failed.
	takeoverInterval = 10 * time.Millisecond
	retryInterval    = time.Second
	// fencers is how many claims are fenced at a time.
	fencers = 16
)

// TakeOver makes sure that nothing can be stored any more which this process does not know, and
// then has it decide. It is called when the process has got the Lease, and returns with an error
// only if the context ends.
//
// What a predecessor has approved, and what was let pass while nobody could be asked, rests on a
// version that its claim had before. So the claims are listed, as of now; those without an
// allocation are fenced; and when the ledger knows each of them at a version after the fence, and
// the others as they were listed, then it knows all allocations there are or can be, but for
// those that this process approves from then on.
func (g *Guard) TakeOver(ctx context.Context, fencer *Fencer, of *ledger.Ledger) error {
	began := time.Now()
	claims, err := fencer.list(ctx)
	if err != nil {
		return err
	}
	waits := make([]awaited, len(claims))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(fencers)
	for i, claim := range claims {
		group.Go(func() (err error) {
			waits[i], err = fencer.ruleOut(groupCtx, claim)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, claim := range waits {
		if err := claim.await(ctx, fencer, of); err != nil {
			return err
		}
	}
	g.Book.Decide(true)
	klog.FromContext(ctx).Info("This process decides about allocations", "claims", len(claims), "after", time.Since(began).Round(time.Millisecond))
	return nil
}

// claimAt is what matters of a claim that was listed.
type claimAt struct {
	ledger.ClaimRef
	version   string
	allocated bool
}

// list returns all claims as they are now: it does not ask the API server's cache.
func (f *Fencer) list(ctx context.Context) (claims []claimAt, err error) {
	page := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return f.Claims.ResourceClaims(metav1.NamespaceAll).List(ctx, options)
	})
	err = again(ctx, "list claims", func(ctx context.Context) error {
		claims = nil
		return page.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
			if claim, ok := object.(*resourceapi.ResourceClaim); ok {
				claims = append(claims, claimAt{ledger.RefTo(claim), claim.ResourceVersion, claim.Status.Allocation != nil})
			}
			return nil
		})
	})
	return claims, err
}

// awaited is a claim that the ledger has to know at some version, or not at all if it is "".
type awaited struct {
	ledger.ClaimRef
	version string
}

// ruleOut fences a claim unless it is allocated. If it cannot be written to (a policy may be
// against that), what was on its way can arrive until the API server's request timeout is over.
func (f *Fencer) ruleOut(ctx context.Context, claim claimAt) (awaited, error) {
	if claim.allocated {
		return awaited{claim.ClaimRef, claim.version}, nil
	}
	result := awaited{ClaimRef: claim.ClaimRef}
	bounded, cancel := context.WithTimeout(ctx, f.RequestTimeout)
	defer cancel()
	err := again(bounded, "fence claim", func(ctx context.Context) (err error) {
		result.version, err = f.Fence(ctx, claim.ClaimRef, claim.version)
		return err
	})
	if err != nil && ctx.Err() == nil {
		return awaited{claim.ClaimRef, claim.version}, nil
	}
	return result, err
}

// await waits until the ledger knows the claim at that version, or the claim is gone.
func (a awaited) await(ctx context.Context, f *Fencer, of *ledger.Ledger) error {
	for looks := 1; a.version != "" && !objectversion.AtLeast(of.State(a.UID).Version, a.version); looks++ {
		if looks%100 == 0 { // Its deletion may have been all there was to see.
			claim, err := f.Claims.ResourceClaims(a.Namespace).Get(ctx, a.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) || err == nil && claim.UID != a.UID {
				return nil
			}
		}
		select {
		case <-time.After(takeoverInterval):
		case <-ctx.Done():
			return fmt.Errorf("waiting for the watch to show claim %s at version %s: %w", a.ClaimRef, a.version, context.Cause(ctx))
		}
	}
	return nil
}

// again calls a function until it succeeds or the context ends.
func again(ctx context.Context, what string, try func(context.Context) error) error {
	return wait.PollUntilContextCancel(ctx, retryInterval, true, func(ctx context.Context) (bool, error) {
		err := try(ctx)
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Cannot "+what+" to take over from another guard; trying again")
		}
		return err == nil, nil
	})
}
