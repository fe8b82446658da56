package ledger_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// runningWorld is a ledger that is told of pods which run.
type runningWorld struct {
	*ledger.Ledger
	pods sets.Set[types.UID]
	// prepared are those of the pods whose claims the kubelet has prepared.
	prepared sets.Set[types.UID]
}

func newRunningWorld(pods ...types.UID) runningWorld {
	w := runningWorld{ledger.New(), sets.New(pods...), sets.New[types.UID]()}
	w.Running = func(_ ledger.ClaimRef, consumers []resourceapi.ResourceClaimConsumerReference) (runners []ledger.Runner) {
		for _, consumer := range consumers {
			if w.pods.Has(consumer.UID) {
				runners = append(runners, ledger.Runner{Pod: consumer.UID, Prepared: w.prepared.Has(consumer.UID)})
			}
		}
		return runners
	}
	return w
}

func (w runningWorld) end(pod types.UID) ledger.Freed {
	w.pods.Delete(pod)
	return w.PodEnded(pod)
}

// usedBy is claim x with device gpu-0 of pool a, reserved for pods.
func usedBy(version int, pods ...string) *resourceapi.ResourceClaim {
	claim := versioned(b.Claim("x").Allocated("a", "gpu-0"), version)
	for _, pod := range pods {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID(pod)})
	}
	return claim
}

// TestDeletedWhileItsPodRuns: the devices of a claim that is deleted are in use until its pods have ended that run.
func TestDeletedWhileItsPodRuns(t *testing.T) {
	t.Parallel()
	w := newRunningWorld("one", "two")
	refresh(w.Ledger, "x", usedBy(1, "one", "two", "never bound"))
	require.Empty(t, refreshed(w.Ledger, "x", nil))
	require.Equal(t, []string{"gpu-0: x"}, holders(w, "a"))
	require.True(t, w.State(usedBy(1).UID).Gone)
	require.Len(t, w.UsesBy("one"), 1, "it goes if the pod does")
	require.Empty(t, w.Gone(usedBy(1).UID), "a write finds it gone as well")

	other := b.Claim("y").Allocated("a", "gpu-0")
	require.ErrorContains(t, w.AddInFlight(ledger.RefTo(other), "pod", other.Status.Allocation), "holds it by now")
	require.Empty(t, w.end("one"))
	require.Empty(t, w.end("somebody"))
	require.Equal(t, []string{"gpu-0: x"}, holders(w, "a"))
	require.Equal(t, freed("a", "gpu-0"), w.end("two"))
	require.Empty(t, holders(w, "a"))
	require.Empty(t, w.UsesBy("two"))
	require.Equal(t, ledger.ClaimState{}, w.State(usedBy(1).UID), "nothing is remembered")
	require.NoError(t, w.AddInFlight(ledger.RefTo(other), "pod", other.Status.Allocation))
}

func TestDeletedWhenNobodyRuns(t *testing.T) {
	t.Parallel()
	w := newRunningWorld()
	refresh(w.Ledger, "x", usedBy(1, "never bound"))
	require.Equal(t, freed("a", "gpu-0"), refreshed(w.Ledger, "x", nil))
	require.Equal(t, ledger.ClaimState{}, w.State(usedBy(1).UID))

	w.pods.Insert("one")
	refresh(w.Ledger, "x", versioned(b.Claim("x").Obj(), 2))
	require.Empty(t, refreshed(w.Ledger, "x", nil))
	require.Equal(t, ledger.ClaimState{}, w.State(usedBy(1).UID), "it was not allocated")
}

// TestRunsWithAClaimMadeAnew: a claim of the same name with another UID is another claim.
func TestRunsWithAClaimMadeAnew(t *testing.T) {
	t.Parallel()
	anew := func() *resourceapi.ResourceClaim {
		claim := versioned(b.Claim("x").Obj(), 3)
		claim.UID = "anew"
		return claim
	}
	w := newRunningWorld("one")
	refresh(w.Ledger, "x", usedBy(1, "one"))
	require.Empty(t, refreshed(w.Ledger, "x", anew()), "no event has told of the end of the first one")
	require.Equal(t, []string{"gpu-0: x"}, holders(w, "a"))
	allocated := anew()
	allocated.Status, allocated.ResourceVersion = b.Claim("x").Allocated("a", "gpu-1").Status, "4"
	refresh(w.Ledger, "x", allocated)
	require.Equal(t, []string{"gpu-0: x", "gpu-1: x"}, holders(w, "a"))
	require.Equal(t, freed("a", "gpu-0"), w.end("one"))
	require.Equal(t, []string{"gpu-1: x"}, holders(w, "a"))
	require.Equal(t, freed("a", "gpu-1"), refreshed(w.Ledger, "x", nil))
}

// TestKeptAndThereAgain: a claim that was taken for gone counts as the server has it once it is seen.
func TestKeptAndThereAgain(t *testing.T) {
	t.Parallel()
	w := newRunningWorld("one")
	refresh(w.Ledger, "x", usedBy(1, "one"))
	w.Gone(usedBy(1).UID)
	refresh(w.Ledger, "x", nil)
	require.Equal(t, freed("a", "gpu-0"), refreshed(w.Ledger, "x", versioned(b.Claim("x").Obj(), 2)))
	require.Empty(t, w.end("one"))
}

// TestKeptWhileInFlight: what is in flight for the claim ends without ending what is kept, and the other way round.
func TestKeptWhileInFlight(t *testing.T) {
	t.Parallel()
	w := newRunningWorld("one")
	claim := usedBy(1, "one")
	refresh(w.Ledger, "x", claim)
	require.NoError(t, w.AddInFlight(ledger.RefTo(claim), "two", claim.Status.Allocation))
	refresh(w.Ledger, "x", nil)
	require.Empty(t, w.RemoveInFlight(claim.UID, "two"))
	require.Equal(t, []string{"gpu-0: x"}, holders(w, "a"))

	other := newRunningWorld("one")
	refresh(other.Ledger, "x", claim)
	require.NoError(t, other.AddInFlight(ledger.RefTo(claim), "two", claim.Status.Allocation))
	refresh(other.Ledger, "x", nil)
	require.Empty(t, other.end("one"))
	require.Equal(t, []string{"gpu-0: x"}, holders(other, "a"))
	require.Equal(t, freed("a", "gpu-0"), other.RemoveInFlight(claim.UID, "two"))
}

// TestManyDeletedClaims: nothing is left of claims once their pods have ended.
func TestManyDeletedClaims(t *testing.T) {
	t.Parallel()
	w := newRunningWorld()
	for i := range 1_000 {
		w.pods.Insert("pod")
		claim := usedBy(i+1, "pod")
		claim.UID = types.UID(rune('a' + i))
		refresh(w.Ledger, "x", claim)
		refresh(w.Ledger, "x", nil)
		require.Equal(t, freed("a", "gpu-0"), w.end("pod"))
		require.Equal(t, ledger.ClaimState{}, w.State(claim.UID))
	}
}

// TestRunsWithAClaimTwice: a pod can have a claim by itself and through its PodGroup. It ends once.
func TestRunsWithAClaimTwice(t *testing.T) {
	t.Parallel()
	w := newRunningWorld()
	w.Running = func(ledger.ClaimRef, []resourceapi.ResourceClaimConsumerReference) []ledger.Runner {
		return []ledger.Runner{{Pod: "one"}, {Pod: "one"}}
	}
	refresh(w.Ledger, "x", usedBy(1, "one"))
	require.Empty(t, refreshed(w.Ledger, "x", nil))
	require.Equal(t, freed("a", "gpu-0"), w.end("one"))
	require.Equal(t, ledger.ClaimState{}, w.State(usedBy(1).UID))
}

// TestKeptOncePerName: a pod keeps the devices of one claim of a name, however many there are one after the other: of the one that the
// kubelet prepared, and until then of the last one.
func TestKeptOncePerName(t *testing.T) {
	t.Parallel()
	w := newRunningWorld("one")
	deleted := func(number int, consumers ...string) ledger.Freed {
		claim := usedBy(number, consumers...)
		claim.UID = types.UID(fmt.Sprint("x-", number))
		claim.Status.Allocation.Devices.Results[0].Device = fmt.Sprint("gpu-", number)
		refresh(w.Ledger, "x", claim)
		return refreshed(w.Ledger, "x", nil)
	}
	require.Empty(t, deleted(1, "one"))
	require.Equal(t, freed("a", "gpu-1"), deleted(2, "one"), "the pod finds the new one only")
	w.prepared.Insert("one")
	require.Equal(t, freed("a", "gpu-2"), deleted(3, "one"))
	require.Equal(t, freed("a", "gpu-4"), deleted(4, "one"), "the pod runs with the one before")
	w.pods.Insert("two")
	require.Empty(t, deleted(5, "one", "two"))
	require.Equal(t, []string{"gpu-3: x", "gpu-5: x"}, holders(w, "a"))
	require.Equal(t, freed("a", "gpu-5"), w.end("two"))
	require.Equal(t, freed("a", "gpu-3"), w.end("one"))
	require.Empty(t, holders(w, "a"))
	require.Empty(t, w.UsesBy("one"))
}
