package guard

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"
)

// fencePolicy is a server's treatment of fences of a claim.
type fencePolicy int

const (
	permitted       fencePolicy = iota
	withoutEffect               // accepts them and stores nothing
	annotationsFull             // permits labels
	refused
)

// anyPolicy is that of most claims, or another one.
func (w *world) anyPolicy() fencePolicy {
	if w.rng.Intn(2) == 0 {
		return permitted
	}
	return fencePolicy(w.rng.Intn(int(refused) + 1))
}

// modelClaimClient are the claims of a world as a Fencer sees them.
type modelClaimClient struct {
	resourceclient.ResourceClaimInterface
	*world
}

func (w *world) fencer() *Fencer { return &Fencer{Claims: &modelClaimClient{world: w}} }

func (m *modelClaimClient) ResourceClaims(string) resourceclient.ResourceClaimInterface { return m }

func (m *modelClaimClient) Get(_ context.Context, name string, _ metav1.GetOptions) (*resourceapi.ResourceClaim, error) {
	if c := m.claims[name]; c != nil {
		return c.object(), nil
	}
	return nil, apierrors.NewNotFound(claimResource, name)
}

func (m *modelClaimClient) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*resourceapi.ResourceClaim, error) {
	if m.rng.Intn(4) == 0 {
		m.save() // Between the read and the write.
	}
	var patch metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, err
	}
	c := m.claims[name]
	switch {
	case m.rng.Intn(8) == 0:
		return nil, unreachable(name)
	case c == nil:
		return nil, apierrors.NewNotFound(claimResource, name)
	case strconv.Itoa(c.version) != patch.ResourceVersion:
		return nil, apierrors.NewConflict(claimResource, name, nil)
	case c.policy == refused, c.policy == annotationsFull && len(patch.Annotations) > 0:
		return nil, refuses(name)
	case c.policy == withoutEffect:
		return c.object(), nil
	}
	m.store(*c)
	return m.claims[name].object(), nil
}

// observation is the state of an approval in a sweep: the number of reviews, and the writes under way then. When all
// of these have come or never will, more time has passed than requests take.
type observation struct {
	asked    int
	underWay []*pending
}

// cameOrWent reports whether none of the writes can come any more.
func (w *world) cameOrWent(writes []*pending) bool {
	return !slices.ContainsFunc(writes, func(p *pending) bool { return slices.Contains(w.writes, p) })
}

// timeOut has an API server give up a request.
func (w *world) timeOut() {
	if p := w.anyWrite(func(*pending) bool { return true }); p != nil {
		w.drop(p)
	}
}

// sweep has a guard fence an approval. If that fails, and nothing can come any more, it is going to end it.
func (w *world) sweep() {
	g := w.guards[w.rng.Intn(len(w.guards))]
	approvals := g.book.Approvals()
	if len(approvals) == 0 {
		return
	}
	approval := approvals[w.rng.Intn(len(approvals))]
	write := watchedWrite{approval.Claim.UID, approval.Version}
	seen, known := g.observed[write]
	if !known || seen.asked != approval.asked {
		seen = observation{approval.asked, slices.Clone(w.writes)}
		g.observed[write] = seen
	}
	version, err := w.fencer().Fence(context.Background(), approval.Claim, approval.Version)
	switch {
	case err != nil && w.cameOrWent(seen.underWay):
		w.beginExpiry(g, approval)
	case err != nil:
	case version == "":
		g.book.Gone(approval.Claim.UID)
	default:
		g.book.Fenced(approval, version)
	}
}

// beginExpiry reads the claim; what becomes of that follows later.
func (w *world) beginExpiry(g *process, approval Approval) {
	version, err := w.fencer().version(context.Background(), Listed{ClaimRef: approval.Claim})
	switch {
	case err != nil:
	case version == "":
		g.book.Gone(approval.Claim.UID)
	default:
		g.expiring = func() { g.book.Expire(approval, version) }
	}
}

// expire has a guard end an approval that has expired.
func (w *world) expire() {
	if g := w.guards[w.rng.Intn(len(w.guards))]; g.expiring != nil {
		before := len(g.book.Approvals())
		g.expiring()
		g.expiring = nil
		if len(g.book.Approvals()) < before {
			w.tell("%s: what it approved has expired", g.name)
		}
	}
}
