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

	"github.com/quartermaster-dra/quartermaster/internal/objectversion"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

const (
	// lookupTimeout is how long the API server may take to say what it has of a claim.
	lookupTimeout = 500 * time.Millisecond
	// maxLookups is how many claims it is asked about at a time: who invents claims sends it no more
	// than that. All others wait for the watch meanwhile, which usually is behind by milliseconds.
	maxLookups = 16
)

// Lookup asks the API server about claims that nothing else here shows. Make it with NewLookup.
type Lookup struct {
	claims resourceclient.ResourceClaimsGetter
	slots  *semaphore.Weighted
}

// NewLookup returns a Lookup by a client, which should have a rate limit of its own: what is looked
// up must not keep fences waiting.
func NewLookup(claims resourceclient.ResourceClaimsGetter) *Lookup {
	return &Lookup{claims: claims, slots: semaphore.NewWeighted(maxLookups)}
}

// find returns what the API server has of a claim. It does not ask the server's cache, which may be behind the
// one that has sent a request.
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

// lookup is what the API server says of a claim: its version, "" if there is none with that UID, and what it
// requests.
type lookup struct {
	version  string
	requests []resourceapi.DeviceRequest
	err      error
}

// begin looks a claim up. The channel gets the result.
func (l *Lookup) begin(ctx context.Context, ref ledger.ClaimRef) <-chan lookup {
	result := make(chan lookup, 1)
	go func() { result <- l.find(ctx, ref) }()
	return result
}

// judge answers a request about the claim, or returns the request with what was found out.
func (l lookup) judge(ctx context.Context, r *Request) (next *Request, answer Answer, done bool) {
	switch {
	case l.err != nil: // The watch may show the claim yet.
		klog.FromContext(ctx).V(2).Info("It is not known whether a claim exists, for which an allocation was asked", "claim", r.Claim, "reason", l.err)
		return r, Answer{}, false
	case l.version == "":
		return r, Answer{Kind: Denied, Reason: fmt.Sprintf("claim %s with UID %s is not known to the API server; it was deleted meanwhile, or there never was one",
			r.Claim, r.Claim.UID)}, true
	case l.version == r.Version:
		confirmed := *r
		confirmed.Confirmed, confirmed.Stored, confirmed.Requests = true, true, l.requests
		return &confirmed, Answer{}, false
	case objectversion.Newer(l.version, r.Version):
		return r, Answer{}, true // As in Book: the server refuses what rests on an old version.
	default:
		return r, Answer{Kind: Denied, Reason: fmt.Sprintf("claim %s with UID %s has version %s on the API server; nothing can be stored on version %s, which it never had",
			r.Claim, r.Claim.UID, l.version, r.Version)}, true
	}
}
