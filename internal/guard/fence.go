package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// fieldManager is the field manager of fences. It differs from that of the schedulers, which recognize their own
// allocations by theirs.
const fieldManager = "quartermaster-guard"

// sweepInterval is the interval of the checks for approvals without a write. Usually the write follows its approval
// within milliseconds; an approval that two checks have seen is ruled out.
const sweepInterval = time.Second

// maxPause is the longest pause between two attempts.
const maxPause = 30 * time.Second

// Fencer writes to claims, so that their versions grow and the server refuses writes that are based on an older
// version.
type Fencer struct {
	Claims resourceclient.ResourceClaimsGetter
	// RequestTimeout is the API servers' --request-timeout. It matters only for claims that cannot be written to:
	// after it, no earlier request can be stored any more.
	RequestTimeout time.Duration
}

// Fence makes sure that the claim has a newer version than the given one, and returns its version; "" if the claim is
// gone. The server then refuses writes based on the given version or an older one. A claim that is too large for any
// write keeps its version: an allocation does not fit either.
func (f *Fencer) Fence(ctx context.Context, ref ledger.ClaimRef, version string) (string, error) {
	claim, err := f.fence(ctx, ref, version)
	if err != nil || claim == nil {
		return "", err
	}
	return claim.ResourceVersion, nil
}

// fence works like Fence, and returns the resulting claim; nil if it is gone.
func (f *Fencer) fence(ctx context.Context, ref ledger.ClaimRef, version string) (*resourceapi.ResourceClaim, error) {
	claim, err := f.get(ctx, ref)
	switch {
	case err != nil:
		return nil, fmt.Errorf("rule out a late write to claim %s: read it: %w", ref, err)
	case claim == nil || informer.Newer(claim.ResourceVersion, version):
		return claim, nil
	}
	// Use a label if the annotations are full or a policy forbids this one.
	fenced, err := f.write(ctx, claim, "annotations")
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || errors.Is(err, errNoEffect) {
		fenced, err = f.write(ctx, claim, "labels")
	}
	if isTooLarge(err) {
		fenced, err = f.shrink(ctx, claim)
	}
	switch {
	case isTooLarge(err): // An allocation adds more, so it cannot be stored either.
		return claim, nil
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil: // This includes a concurrent write to the claim: the next check sees it.
		return nil, fmt.Errorf("rule out a late write to claim %s: write to it: %w", ref, err)
	default:
		return fenced, nil
	}
}

// errNoEffect reports a write that the server has accepted without storing anything.
var errNoEffect = errors.New("the server has accepted it and changed nothing; see which admission plugin drops it")

// isOutage reports whether an error is not the API server's answer about this claim.
func isOutage(err error) bool {
	if err == nil || errors.Is(err, errNoEffect) {
		return false
	}
	var answer apierrors.APIStatus
	return !errors.As(err, &answer) || answer.Status().Code >= http.StatusInternalServerError || apierrors.IsTooManyRequests(err)
}

// isTooLarge reports whether a claim is too large for any write. etcd's error has no code.
func isTooLarge(err error) bool {
	return err != nil && (apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(err.Error(), "request is too large"))
}

// smallest is an annotation that is smaller (14 bytes, as API servers store it) than the shortest allocation of a
// device (18 bytes, if driver, pool, device and request have names of one letter).
const smallest = "qm-fence"

// shrink removes the managedFields of a claim that is too large for any write, which makes room. If the claim has
// none, it adds or removes the smallest possible annotation.
func (f *Fencer) shrink(ctx context.Context, claim *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	fenced, err := f.patch(ctx, claim, "managedFields", []struct{}{{}})
	if !errors.Is(err, errNoEffect) {
		return fenced, err
	}
	value := new(string)
	if _, found := claim.Annotations[smallest]; found {
		value = nil
	}
	return f.patch(ctx, claim, "annotations", map[string]*string{smallest: value})
}

// write sets a new value among the claim's annotations or labels.
func (f *Fencer) write(ctx context.Context, claim *resourceapi.ResourceClaim, among string) (*resourceapi.ResourceClaim, error) {
	return f.patch(ctx, claim, among, map[string]string{write.FenceAnnotation: string(uuid.NewUUID())})
}

// patch changes one field of the claim's metadata, if the claim still has the same version. It writes nothing else,
// so fields that this build does not know survive.
func (f *Fencer) patch(ctx context.Context, claim *resourceapi.ResourceClaim, field string, value any) (*resourceapi.ResourceClaim, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": claim.ResourceVersion, field: value}})
	if err != nil {
		return nil, err
	}
	fenced, err := f.Claims.ResourceClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return nil, err
	}
	if !informer.Newer(fenced.ResourceVersion, claim.ResourceVersion) {
		return nil, fmt.Errorf("patch of %s: %w", field, errNoEffect)
	}
	return fenced, nil
}

// Sweep rules out approved writes that do not come, until the context ends.
func (g *Guard) Sweep(ctx context.Context, fencer *Fencer) {
	var known map[watchedWrite]watched
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		known = g.sweep(ctx, fencer, known)
	}, sweepInterval)
}

// watchedWrite identifies a write that may still come.
type watchedWrite struct {
	claim   types.UID
	version string
}

// watched is the state of a write between two sweeps.
type watched struct {
	asked int
	// since is the time when the sweep first saw this value of asked.
	since time.Time
	// failures makes the pause after a failed attempt longer each time: its cause probably persists, and other claims wait.
	failures *flowcontrol.Backoff
}

// thisWrite is the one item of watched.failures.
const thisWrite = ""

// newWatched begins to watch a write that the server has asked about asked times.
func newWatched(asked int) watched {
	return watched{asked, time.Now(), flowcontrol.NewBackOff(sweepInterval, maxPause)}
}

// sweep fences the approvals that the previous sweep already saw, and returns all current ones.
func (g *Guard) sweep(ctx context.Context, fencer *Fencer, before map[watchedWrite]watched) map[watchedWrite]watched {
	now := make(map[watchedWrite]watched)
	var late []Approval
	for _, approval := range g.Book.Approvals() {
		write := watchedWrite{approval.Claim.UID, approval.Version}
		found, known := before[write]
		if found.asked != approval.asked {
			found = newWatched(approval.asked)
		}
		now[write] = found
		if known && (!found.failures.IsInBackOffSinceUpdate(thisWrite, time.Now()) || time.Since(found.since) > fencer.RequestTimeout) {
			late = append(late, approval)
		}
	}
	g.fences.each(ctx, late, func(approval Approval) {
		g.ruleOut(ctx, fencer, approval, now[watchedWrite{approval.Claim.UID, approval.Version}])
	})
	return now
}

// ruleOut fences an approval, or ends it if it has expired.
func (g *Guard) ruleOut(ctx context.Context, fencer *Fencer, approval Approval, found watched) {
	bounded, cancel := context.WithTimeout(ctx, fenceTimeout)
	defer cancel()
	claim, err := fencer.fence(bounded, approval.Claim, approval.Version)
	if isOutage(err) {
		g.Book.Outage()
	}
	switch {
	case err != nil && time.Since(found.since) > fencer.RequestTimeout:
		g.expire(ctx, fencer, approval)
	case err != nil:
		if !apierrors.IsConflict(err) { // A conflict shows another write to the claim, which ends the approval.
			found.failures.Next(thisWrite, time.Now())
		}
		klog.FromContext(ctx).Error(err, "An approved allocation may yet be stored; its devices stay in use", "claim", approval.Claim)
	case claim == nil:
		g.Book.Gone(approval.Claim.UID)
	default:
		if claim.Status.Allocation != nil {
			g.Book.Stored(approval)
		}
		g.Book.Fenced(approval, claim.ResourceVersion)
	}
}

// expire ends an approval that is too old for its write to come. The write may have come before: the approval ends
// only when the ledger knows the server's version.
func (g *Guard) expire(ctx context.Context, fencer *Fencer, approval Approval) {
	bounded, cancel := context.WithTimeout(ctx, fenceTimeout)
	defer cancel()
	claim, err := fencer.get(bounded, approval.Claim)
	switch {
	case err != nil:
		klog.FromContext(ctx).Error(err, "It is not known whether an approved allocation was stored; its devices stay in use", "claim", approval.Claim)
	case claim == nil:
		g.Book.Gone(approval.Claim.UID)
	default:
		if claim.Status.Allocation != nil {
			g.Book.Stored(approval)
		}
		g.Book.Expire(approval, claim.ResourceVersion)
	}
}

// get returns the server's claim, nil if it is gone.
func (f *Fencer) get(ctx context.Context, ref ledger.ClaimRef) (*resourceapi.ResourceClaim, error) {
	claim, err := f.Claims.ResourceClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && claim.UID != ref.UID {
		return nil, nil
	}
	return claim, err
}
