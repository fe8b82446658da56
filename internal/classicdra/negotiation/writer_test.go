package negotiation

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// writerFixture is a writer, and a server with one claim at most.
type writerFixture struct {
	*Writer
	mutex     sync.Mutex
	stored    *resourceapi.ResourceClaim
	conflicts int // to come
	writes    int
	bound     bool // the pod that asks
}

func newWriterFixture(stored *resourceapi.ResourceClaim) *writerFixture {
	f := &writerFixture{stored: stored}
	f.Writer = &Writer{Claims: func(string) ClaimClient { return f }, Asker: f}
	return f
}

// Get implements ClaimClient.
func (f *writerFixture) Get(_ context.Context, name string, _ metav1.GetOptions) (*resourceapi.ResourceClaim, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.stored == nil || f.stored.Name != name {
		return nil, apierrors.NewNotFound(resourceapi.Resource("resourceclaims"), name)
	}
	return f.stored.DeepCopy(), nil
}

// UpdateStatus implements ClaimClient.
func (f *writerFixture) UpdateStatus(_ context.Context, claim *resourceapi.ResourceClaim, _ metav1.UpdateOptions) (*resourceapi.ResourceClaim, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.conflicts > 0 {
		f.conflicts--
		f.stored.ResourceVersion += "0"
	}
	if claim.ResourceVersion != f.stored.ResourceVersion {
		return nil, apierrors.NewConflict(resourceapi.Resource("resourceclaims"), claim.Name, errors.New("changed"))
	}
	f.writes++
	f.stored = claim.DeepCopy()
	f.stored.ResourceVersion = strconv.Itoa(f.writes)
	return f.stored.DeepCopy(), nil
}

// requested reports whether a driver is asked to free the claim.
func (f *writerFixture) requested() bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return conversion.AlphaClaimOf(f.stored).DeallocationRequested
}

// requireOnly fails the test if anything but the given change was made to the claim.
func (f *writerFixture) requireOnly(t *testing.T, before *resourceapi.ResourceClaim, change func(*resourceapi.ResourceClaim)) {
	t.Helper()
	want, got := before.DeepCopy(), f.stored.DeepCopy()
	change(want)
	want.ResourceVersion, got.ResourceVersion = "", ""
	if len(got.Status.ReservedFor) == 0 {
		got.Status.ReservedFor = nil
	}
	require.Empty(t, cmp.Diff(want, got))
}

// seen is a claim of pod "me" as it was when the pod was tried.
func seen(t *testing.T, zone string) *Claim {
	t.Helper()
	return attempt(t, nil, claim("c", with(ofController), allocatedIn(zone))).Claims[0]
}

// only replaces the consumers.
func only(pods ...string) func(*resourceapi.ResourceClaim) {
	return func(c *resourceapi.ResourceClaim) {
		c.Status.ReservedFor = nil
		usedBy(pods...)(c)
	}
}

func deallocationRequested(c *resourceapi.ResourceClaim) {
	fields := conversion.AlphaClaimOf(c)
	fields.DeallocationRequested = true
	conversion.SetAlphaClaim(c, fields)
}

func TestReserve(t *testing.T) {
	t.Parallel()
	var full []string
	for i := range ReservedForMaxSize {
		full = append(full, fmt.Sprintf("other-%d", i))
	}
	exclusive := ofController
	exclusive.Exclusive = true
	deleted := func(c *resourceapi.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{} }
	for name, test := range map[string]struct {
		stored  []func(*resourceapi.ResourceClaim)
		seen    string // the zone for which the claim was allocated, a unless given
		want    []string
		changed string
	}{
		"nobody":                {want: []string{"me"}},
		"others":                {stored: edits(usedBy("other")), want: []string{"other", "me"}},
		"this pod":              {stored: edits(usedBy("me", "other")), want: []string{"me", "other"}},
		"exclusive":             {stored: edits(with(exclusive)), want: []string{"me"}},
		"exclusive, used here":  {stored: edits(with(exclusive), usedBy("me")), want: []string{"me"}},
		"exclusive, used":       {stored: edits(with(exclusive), usedBy("other")), changed: "cannot be shared"},
		"full":                  {stored: edits(usedBy(full...)), changed: "reserved for 32 pods"},
		"deallocated":           {stored: edits(func(c *resourceapi.ResourceClaim) { c.Status.Allocation = nil }), changed: "allocation has been removed"},
		"about to be":           {stored: edits(deallocationRequested, usedBy("me")), changed: "about to be deallocated"},
		"allocated for another": {seen: "b", changed: "allocated for other nodes"},
		"deleted":               {stored: edits(deleted), changed: "being deleted"},
		"deleted, used here":    {stored: edits(deleted, usedBy("me")), want: []string{"me"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := claim("c", append(edits(with(ofController), allocatedIn("a")), test.stored...)...)
			f := newWriterFixture(before.DeepCopy())
			f.conflicts = 2
			if test.seen == "" {
				test.seen = "a"
			}
			err := f.Reserve(t.Context(), seen(t, test.seen), builder.Pod("me"))
			if test.changed != "" {
				require.ErrorIs(t, err, ErrChanged)
				require.ErrorContains(t, err, test.changed)
				require.Zero(t, f.writes)
				return
			}
			require.NoError(t, err)
			f.requireOnly(t, before, only(test.want...))
		})
	}
}

func edits(list ...func(*resourceapi.ResourceClaim)) []func(*resourceapi.ResourceClaim) { return list }

func TestReserveWhatIsGone(t *testing.T) {
	t.Parallel()
	replaced := claim("c", with(ofController), allocatedIn("a"), usedBy("me"))
	replaced.UID = "another"
	for _, f := range []*writerFixture{newWriterFixture(nil), newWriterFixture(replaced)} {
		require.ErrorIs(t, f.Reserve(t.Context(), seen(t, "a"), builder.Pod("me")), ErrChanged)
		require.NoError(t, f.Unreserve(t.Context(), seen(t, "a"), notBound("me")))
		require.NoError(t, f.RequestDeallocation(t.Context(), seen(t, "a"), notBound("me"), always))
		require.Zero(t, f.writes)
	}
}

func TestReserveUnderConflicts(t *testing.T) {
	t.Parallel()
	f := newWriterFixture(claim("c", with(ofController), allocatedIn("a")))
	f.conflicts = maxWriteConflicts
	err := f.Reserve(t.Context(), seen(t, "a"), builder.Pod("me"))
	require.True(t, apierrors.IsConflict(err), "%v", err)
	require.ErrorContains(t, err, "claim default/c: asked to reserve it for pod me")
	require.NotErrorIs(t, err, ErrChanged)
}

func TestUnreserve(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ before, after []string }{
		"the last one":  {before: []string{"me"}},
		"one of many":   {before: []string{"x", "me", "y"}, after: []string{"x", "y"}},
		"not among any": {before: []string{"x"}, after: []string{"x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := claim("c", with(ofController), allocatedIn("a"), usedBy(test.before...))
			f := newWriterFixture(before.DeepCopy())
			f.conflicts = 1
			require.NoError(t, f.Unreserve(t.Context(), seen(t, "a"), notBound("me")))
			f.requireOnly(t, before, only(test.after...))
		})
	}
}

// Ask says that the pod is not bound, unless it is.
func (f *writerFixture) Ask(_ context.Context, _ *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) (write.Unbound, error) {
	if f.bound {
		return write.Unbound{}, write.ErrBound
	}
	return notBound(consumer.Name), nil
}

// notBound is final evidence about a pod.
func notBound(pod string) write.Unbound {
	unbound, _ := write.Deleted(builder.Pod(pod))
	return unbound
}

func always() bool { return true }

func TestRequestDeallocation(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		consumers []string
		seen      string // the zone for which the claim was allocated
		withdrawn bool
		requested bool
	}{
		"unused":                {seen: "a", requested: true},
		"used by this pod":      {seen: "a", consumers: []string{"me"}, requested: true},
		"used by others":        {seen: "a", consumers: []string{"me", "other"}},
		"allocated for another": {seen: "b"},
		"not wanted any more":   {seen: "a", withdrawn: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := claim("c", with(ofController), allocatedIn("a"), usedBy(test.consumers...))
			f := newWriterFixture(before.DeepCopy())
			require.NoError(t, f.RequestDeallocation(t.Context(), seen(t, test.seen), notBound("me"), func() bool { return !test.withdrawn }))
			f.requireOnly(t, before, func(c *resourceapi.ResourceClaim) {
				if test.requested {
					only()(c)
					deallocationRequested(c)
				}
			})
		})
	}
}
