package guard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	// clientsOfAllKinds write to so many claims for so few devices.
	clientsOfAllKinds, wantingClaims, wantedDevices = 16, 64, 8
)

// assault is what clients do all at the same time.
type assault struct {
	*tenant
	mutex sync.Mutex
	// allocations are those that were stored, by writer, and denied counts what the guard has denied.
	allocations map[string]int
	denied      int
	// strange are answers that are neither.
	strange map[string]int
}

// TestWritesOfAllKinds: 16 clients that know nothing of each other give 64 claims 8 devices, in all ways and
// versions, while guards are killed and paused. No device is ever had twice, and afterwards all of them are to be had.
func TestWritesOfAllKinds(t *testing.T) {
	g, s := installGuards(t, admissionregistrationv1.Fail), newTenant(t, "all-writes", wantedDevices)
	g.start()
	g.start()
	g.decider()
	s.guarded()
	for i := range wantingClaims {
		s.claims(wanting(i))
	}
	held := harness.WatchHolders(s.Space)
	a := &assault{tenant: s, allocations: make(map[string]int), strange: make(map[string]int)}
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for i := range clientsOfAllKinds {
		clients.Go(func() { a.writeAtRandom(ctx, int64(i)) })
	}
	err := g.replaceAgainAndAgain(replacements(t), held)
	a.Eventually("have devices allocated by writers of all kinds", func(context.Context) error { return a.missing(s.writers(cluster.ControlPlane.AdminConfig())) })
	stop()
	clients.Wait()
	require.NoError(t, err)
	allocations, twice := held.Seen()
	t.Logf("%d allocations, %d denied, %d while another claim had the device; other answers: %v", allocations, a.denied, len(twice), a.strange)
	require.Empty(t, twice)
	require.NotZero(t, a.denied)

	require.NoError(t, s.releaseAll(t.Context()))
	began := time.Now()
	s.Eventually("have every device again", func(ctx context.Context) error { return s.allocateAll(ctx) })
	t.Logf("all devices were free %s after the last write", time.Since(began).Round(time.Millisecond))
	require.NoError(t, s.releaseAll(t.Context()))
	_, twice = held.Seen()
	require.Empty(t, twice)
}

func wanting(i int) string { return fmt.Sprintf("wanting-%02d", i) }

// allocateAll gives each device that has none a claim.
func (s *tenant) allocateAll(ctx context.Context) error {
	var errs []error
	for i := range wantedDevices {
		if s.stored(wanting(i)).Status.Allocation == nil {
			errs = append(errs, s.allocate(ctx, wanting(i), fmt.Sprintf("gpu-%d", i)))
		}
	}
	return errors.Join(errs...)
}

// writeAtRandom writes until the context ends. What it was given it takes away again in the same way: what one has
// applied, others do not release by not applying it.
func (a *assault) writeAtRandom(ctx context.Context, seed int64) {
	rng := rand.New(rand.NewSource(seed))
	writers := a.writers(cluster.ControlPlane.AdminConfig())
	given := make(map[string]*writer)
	for ctx.Err() == nil {
		w, claim := writers[rng.Intn(len(writers))], wanting(rng.Intn(wantingClaims))
		status := a.held(fmt.Sprintf("gpu-%d", rng.Intn(wantedDevices)))
		switch what := rng.Intn(10); {
		case what == 0:
			a.answered(w, w.label(ctx, claim, fmt.Sprint(rng.Int())), false)
		case what == 1:
			a.answered(w, w.status(ctx, claim, status, true), false)
		case what == 2: // The main resource, which has no status.
			a.answered(w, w.write(ctx, claim, "status", contentOf(status), false), false)
		case what <= 4 && len(given) > 0:
			claim = slices.Sorted(maps.Keys(given))[0]
			a.answered(w, given[claim].status(ctx, claim, &resourceapi.ResourceClaimStatus{}, false), false)
			delete(given, claim)
		default:
			if a.answered(w, w.status(ctx, claim, status, false), true) {
				given[claim] = w
			}
		}
		time.Sleep(reviewsEvery)
	}
}

// answered counts an answer, and reports whether it was none against it.
func (a *assault) answered(w *writer, err error, allocates bool) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	switch {
	case err == nil && allocates:
		a.allocations[w.String()]++
	case err == nil, errors.Is(err, context.Canceled):
	case strings.Contains(err.Error(), "holds it by now"):
		a.denied++
	default:
		a.strange[string(apierrors.ReasonForError(err))]++
	}
	return err == nil
}

// missing is an error if a writer has not allocated anything so far.
func (a *assault) missing(writers []*writer) error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, w := range writers {
		if a.allocations[w.String()] == 0 {
			return fmt.Errorf("%s has allocated nothing; others: %v", w, a.allocations)
		}
	}
	return nil
}
