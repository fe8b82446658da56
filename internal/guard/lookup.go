package guard

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

const (
	// lookupTimeout limits the time of one lookup in the API server.
	lookupTimeout = 500 * time.Millisecond
	// maxLookups bounds the concurrent lookups, and so the load that requests about invented claims can cause. All
	// others meanwhile wait for the watch, which usually lags by milliseconds.
	maxLookups = 16
)

// Lookup asks the API server about claims that are otherwise unknown. Create it with NewLookup.
type Lookup struct {
	claims resourceclient.ResourceClaimsGetter
	slots  *semaphore.Weighted
}

// NewLookup returns a Lookup on a client, which should have its own rate limit: lookups must not delay fences.
func NewLookup(claims resourceclient.ResourceClaimsGetter) *Lookup {
	return &Lookup{claims: claims, slots: semaphore.NewWeighted(maxLookups)}
}

// find returns the API server's state of a claim. It bypasses the server's cache, which may lag behind the server
// that sent the request.
func (l *Lookup) find(ctx context.Context, ref ledger.ClaimRef) lookup {
	if err := l.slots.Acquire(ctx, 1); err != nil {
		return lookup{err: fmt.Errorf("too many claims are looked up at the same time: %w", err)}
	}
	defer l.slots.Release(1)
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	claim, err := l.claims.ResourceClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && claim.UID != ref.UID:
		return lookup{}
	case err != nil:
		return lookup{err: fmt.Errorf("ask the API server for claim %s: %w", ref, err)}
	default:
		return lookup{version: claim.ResourceVersion, requests: claim.Spec.Devices.Requests}
	}
}

// lookup is the API server's state of a claim: its version, "" if no claim has that UID, and its requests.
type lookup struct {
	version  string
	requests []resourceapi.DeviceRequest
	err      error
}

// begin starts a lookup. The channel receives the result.
func (l *Lookup) begin(ctx context.Context, ref ledger.ClaimRef) <-chan lookup {
	result := make(chan lookup, 1)
	go func() { result <- l.find(ctx, ref) }()
	return result
}

// judge answers a request about the claim, or returns the request with the results of the lookup.
func (l lookup) judge(ctx context.Context, r *Request) (next *Request, answer Answer, done bool) {
	switch {
	case l.err != nil: // The watch may still show the claim.
		klog.FromContext(ctx).V(2).Info("It is not known whether the claim of a requested allocation exists", "claim", r.Claim, "reason", l.err)
		return r, Answer{}, false
	case l.version == "":
		return r, Answer{Kind: Denied, Reason: fmt.Sprintf("claim %s with UID %s is not known to the API server; it was deleted meanwhile, or there never was one",
			r.Claim, r.Claim.UID)}, true
	case l.version == r.Version:
		confirmed := *r
		confirmed.Confirmed, confirmed.Stored, confirmed.Requests = true, true, l.requests
		return &confirmed, Answer{}, false
	case informer.Newer(l.version, r.Version):
		return r, Answer{}, true // As in Book: the server refuses writes based on an old version.
	default:
		return r, Answer{Kind: Denied, Reason: fmt.Sprintf("claim %s with UID %s has version %s on the API server; nothing can be stored on version %s, which it never had",
			r.Claim, r.Claim.UID, l.version, r.Version)}, true
	}
}
