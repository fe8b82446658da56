package guard

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

func TestFenceWritesOnlyToWhatHasNotChanged(t *testing.T) {
	t.Parallel()
	s := newClaimServer(empty("x"))
	version, err := s.Fence(t.Context(), refTo(empty("x")), "3")
	require.NoError(t, err)
	require.Equal(t, s.claims["x"].ResourceVersion, version)
	require.Equal(t, 1, s.written)
	require.NotEmpty(t, s.claims["x"].Annotations[write.FenceAnnotation])

	again, err := s.Fence(t.Context(), refTo(empty("x")), "3")
	require.NoError(t, err)
	require.Equal(t, version, again, "it has changed already")
	require.Equal(t, 1, s.written)

	_, err = s.Fence(t.Context(), refTo(empty("x")), "999") // A version that it never had.
	require.NoError(t, err)
	require.Equal(t, 2, s.written)
}

func TestFenceOfClaimsThatAreGone(t *testing.T) {
	t.Parallel()
	gone := func(s *claimServer) {
		t.Helper()
		version, err := s.Fence(t.Context(), refTo(empty("x")), "3")
		require.NoError(t, err)
		require.Empty(t, version)
		require.Zero(t, s.written)
	}
	gone(newClaimServer())
	replaced := empty("x")
	replaced.UID = "another"
	gone(newClaimServer(replaced))
	s := newClaimServer(empty("x"))
	s.beforeUpdate = func(name string) error { // It goes between the read and the write.
		s.remove(name)
		return nil
	}
	gone(s)
}

// A tenant may fill a claim up to what etcd stores, and nothing can be added to it then.
func TestFenceForAClaimWithoutRoom(t *testing.T) {
	t.Parallel()
	full := empty("x")
	full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "tenant"}}
	s := newClaimServer(full)
	s.noRoom = true
	version, err := s.Fence(t.Context(), refTo(full), "3")
	require.NoError(t, err)
	require.Equal(t, s.claims["x"].ResourceVersion, version)
	require.NotEqual(t, "3", version)
	require.Empty(t, s.claims["x"].ManagedFields)
	require.Empty(t, s.claims["x"].Annotations)
}

// The claim has no managedFields that could be removed.
func TestFenceForAClaimWithLessRoom(t *testing.T) {
	t.Parallel()
	s := newClaimServer(empty("x"))
	s.noRoom, s.room = true, 14
	version, err := s.Fence(t.Context(), refTo(empty("x")), "3")
	require.NoError(t, err)
	require.Equal(t, s.claims["x"].ResourceVersion, version)
	require.NotEqual(t, "3", version)
	require.Equal(t, map[string]string{smallest: ""}, s.claims["x"].Annotations)

	s = newClaimServer(empty("x"))
	s.noRoom = true
	version, err = s.Fence(t.Context(), refTo(empty("x")), "3")
	require.NoError(t, err)
	require.Equal(t, "3", version, "no allocation can be stored")
	require.Zero(t, s.written)
}

// The smallest fence is smaller than any allocation.
func TestSmallestFence(t *testing.T) {
	t.Parallel()
	claim := empty("x")
	before := claim.Size()
	claim.Annotations = map[string]string{smallest: ""}
	fence := claim.Size() - before
	allocated := empty("x")
	allocated.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "r", Driver: "d", Pool: "p", Device: "x"}},
	}}
	require.Less(t, fence, allocated.Size()-before)
}

func TestFenceMeetsAnotherWrite(t *testing.T) {
	t.Parallel()
	s := newClaimServer(empty("x"))
	arrived := ""
	s.beforeUpdate = func(string) error {
		arrived = s.arrives(b.Claim("x").Allocated("a", "gpu-0"))
		return nil
	}
	_, err := s.Fence(t.Context(), refTo(empty("x")), "3")
	require.True(t, apierrors.IsConflict(err), "%v", err)
	version, err := s.Fence(t.Context(), refTo(empty("x")), "3")
	require.NoError(t, err)
	require.Equal(t, arrived, version)
	require.Zero(t, s.written)
	require.NotNil(t, s.claims["x"].Status.Allocation)
}

// sweeps has the guard look for late writes twice: what is there for the second time is ruled out.
func (d *deputy) sweeps(f *Fencer) {
	d.sweep(d.t.Context(), f, d.sweep(d.t.Context(), f, nil))
}

func TestSweepRulesOutWhatDoesNotCome(t *testing.T) {
	t.Parallel()
	d, s := newDeputy(t), newClaimServer(empty("x"), empty("y"))
	d.shows(s.claims["x"])
	require.Equal(t, Answer{}, d.decide(3, b.Claim("x").Allocated("a", "gpu-0")))
	d.sweep(t.Context(), s.Fencer, nil)
	require.Zero(t, s.written, "it may come any moment")
	d.sweeps(s.Fencer)
	require.Equal(t, 1, s.written)
	require.Equal(t, Denied, d.decide(3, b.Claim("y").Allocated("a", "gpu-0")).Kind, "the watch has not shown whether it came before")
	d.shows(s.claims["x"])
	require.Equal(t, Answer{}, d.decide(3, b.Claim("y").Allocated("a", "gpu-0")))
}

func TestSweepOfClaimsThatAreGone(t *testing.T) {
	t.Parallel()
	d, s := newDeputy(t), newClaimServer()
	require.Equal(t, Answer{}, d.decide(3, b.Claim("x").Allocated("a", "gpu-0")))
	d.sweeps(s.Fencer)
	require.Empty(t, d.Approvals())
}

// longAgo is a write that could not be ruled out since long before any request can be under way yet.
func longAgo(asked int) watched {
	long := newWatched(asked)
	long.since = time.Now().Add(-2 * time.Hour)
	return long
}

// A policy may be against all writes to a claim. Then its devices stay in use until API servers have
// given up whatever they were asked for.
func TestClaimThatCannotBeWrittenTo(t *testing.T) {
	t.Parallel()
	d, s := newDeputy(t), newClaimServer(empty("x"))
	s.beforeUpdate = refuses
	d.shows(s.claims["x"])
	require.Equal(t, Answer{}, d.decide(3, b.Claim("x").Allocated("a", "gpu-0")))
	d.sweeps(s.Fencer)
	require.Len(t, d.Approvals(), 1)

	before := map[watchedWrite]watched{{"uid-x", "3"}: longAgo(1)}
	require.Equal(t, Answer{}, d.decide(3, b.Claim("x").Allocated("a", "gpu-0"))) // The server asks again.
	d.sweep(t.Context(), s.Fencer, before)
	require.Len(t, d.Approvals(), 1, "what the server has asked about since has all the time")

	before = map[watchedWrite]watched{{"uid-x", "3"}: longAgo(2)}
	d.sweep(t.Context(), s.Fencer, before)
	require.Empty(t, d.Approvals())
	require.Equal(t, Answer{}, d.decide(3, b.Claim("y").Allocated("a", "gpu-0")))
}

func TestExpiryMeetsAnotherRequest(t *testing.T) {
	t.Parallel()
	d := newDeputy(t)
	require.Equal(t, Answer{}, d.decide(3, b.Claim("x").Allocated("a", "gpu-0")))
	old := d.Approvals()[0]
	require.Equal(t, Answer{}, d.decide(3, b.Claim("x").Allocated("a", "gpu-0")))
	d.shows(at(3, empty("x")))
	d.Guard.Book.Expire(old, "3")
	require.Len(t, d.Approvals(), 1)
	d.Guard.Book.Expire(d.Approvals()[0], "3")
	require.Empty(t, d.Approvals())
}

// What is too old to come may have come, and the watch be behind.
func TestExpiryOfWhatWasStored(t *testing.T) {
	t.Parallel()
	d, s := newDeputy(t), newClaimServer(empty("x"))
	d.shows(s.claims["x"])
	require.Equal(t, Answer{}, d.decide(3, b.Claim("x").Allocated("a", "gpu-0")))
	s.arrives(b.Claim("x").Allocated("a", "gpu-0"))
	before := map[watchedWrite]watched{{"uid-x", "3"}: longAgo(1)}
	d.sweep(t.Context(), s.Fencer, before)
	require.Equal(t, Denied, d.decide(3, b.Claim("y").Allocated("a", "gpu-0")).Kind)
	d.shows(s.claims["x"])
	require.Empty(t, d.Approvals())
	require.Equal(t, Denied, d.decide(3, b.Claim("y").Allocated("a", "gpu-0")).Kind)
}

// An admission plugin may drop the annotation; then the server stores nothing, and says that all is well.
func TestFenceThatChangesNothing(t *testing.T) {
	t.Parallel()
	s := newClaimServer(empty("x"))
	s.drops = []string{"annotations", "labels"}
	_, err := s.Fence(t.Context(), refTo(empty("x")), "3")
	require.ErrorContains(t, err, "changed nothing")
	require.Zero(t, s.written)
}

// Where there can be no annotation, there can be a label.
func TestFenceByLabel(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*claimServer){
		"the annotations are full":      func(s *claimServer) { s.full = true },
		"the annotation is dropped":     func(s *claimServer) { s.drops = []string{"annotations"} },
		"a policy is against the first": func(s *claimServer) { s.beforeUpdate = once(refuses) },
	} {
		s := newClaimServer(empty("x"))
		prepare(s)
		version, err := s.Fence(t.Context(), refTo(empty("x")), "3")
		require.NoError(t, err, name)
		require.Equal(t, s.claims["x"].ResourceVersion, version)
		require.NotEqual(t, "3", version)
		require.NotEmpty(t, s.claims["x"].Labels[write.FenceAnnotation])
		require.Empty(t, s.claims["x"].Annotations)
	}
}

// once returns a function that calls another one only the first time.
func once(do func(string) error) func(string) error {
	calls := 0
	return func(name string) error {
		if calls++; calls > 1 {
			return nil
		}
		return do(name)
	}
}

// What cannot be fenced is not tried again and again, and what can is, whatever comes before it.
func TestSweepComesBackToWhatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, s := newDeputy(t), newClaimServer(empty("x"), empty("y"))
		var mutex sync.Mutex
		tries := map[string]int{}
		s.beforeUpdate = func(name string) error {
			mutex.Lock()
			defer mutex.Unlock()
			if tries[name]++; name == "x" {
				return refuses(name)
			}
			return nil
		}
		s.stored = d.shows
		d.shows(s.claims["x"])
		d.shows(s.claims["y"])
		require.Equal(t, Answer{}, d.decide(3, b.Claim("x").Allocated("a", "gpu-0")))
		require.Equal(t, Answer{}, d.decide(3, b.Claim("y").Allocated("a", "gpu-1")))
		var known map[watchedWrite]watched
		for range 32 {
			known = d.sweep(t.Context(), s.Fencer, known)
			time.Sleep(sweepInterval)
		}
		require.Equal(t, map[string]int{"x": 2 * 5, "y": 1}, tries, "after 1, 2, 4, 8 and 16 seconds, by annotation and by label")
		require.Len(t, d.Approvals(), 1)
	})
}

// Claims for which the API server takes long keep no other from being fenced.
func TestSlowFencesHoldUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDeputy(t)
		var reading atomic.Int64
		slow := &Fencer{RequestTimeout: time.Hour, Claims: claimReader{get: func(ctx context.Context, name string) (*resourceapi.ResourceClaim, error) {
			if name == "x" {
				return nil, apierrors.NewNotFound(claimResource, name) // So its approval ends.
			}
			reading.Add(1)
			defer reading.Add(-1)
			return silent(ctx, name)
		}}}
		approved := func(name, device string) {
			t.Helper()
			d.watch(name, at(3, empty(name)))
			require.Equal(t, Answer{}, d.decide(3, b.Claim(name).Allocated("a", device)))
		}
		d.publish(b.NodeSlice("a", b.NumberedDevices("gpu", fencers)...).Obj())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range fencers - 1 {
			approved(fmt.Sprintf("slow-%d", i), fmt.Sprintf("gpu-%d", i))
		}
		go d.Sweep(ctx, slow)
		time.Sleep(3 * sweepInterval)
		synctest.Wait()
		require.EqualValues(t, fencers-1, reading.Load(), "all of them at a time, none twice")
		approved("x", fmt.Sprintf("gpu-%d", fencers-1))
		time.Sleep(4 * sweepInterval) // The next sweep may just have missed it.
		require.Len(t, d.Approvals(), fencers-1)
	})
}
