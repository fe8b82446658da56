package allocationlog

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// manyClaims fills an Log with claims of one device each, eight on a node. Each claim
// is decoded like one that comes from the server, so that it shares no memory.
func manyClaims(t testing.TB, n int) *Log {
	o := New(nil, noPools, clock.RealClock{})
	require.NoError(t, feed{o}.Replace(nil, "1"))
	for i := range n {
		require.NoError(t, feed{o}.Update(numberedClaim(t, i, uint64(i+2))))
		feed{o}.UpdateResourceVersion(fmt.Sprint(i + 2))
	}
	return o
}

func numberedClaim(t testing.TB, i int, version uint64) *resourceapi.ResourceClaim {
	claim := inPool(fmt.Sprint("node-", i/8), ours(fmt.Sprint("training-job-worker-", i, "-gpu-x7k2p"), fmt.Sprint("gpu-", i%8)))
	claim.UID = types.UID(fmt.Sprintf("0b8e7d6c-3f52-4c1b-9a64-%012d", i))
	encoded, err := at(version, claim).Marshal()
	require.NoError(t, err)
	decoded := &resourceapi.ResourceClaim{}
	require.NoError(t, decoded.Unmarshal(encoded))
	return decoded
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// A cluster has tens of thousands of claims, and most of a claim does not matter here.
// (Not parallel: other tests use the heap, too.)
func TestSize(t *testing.T) {
	const claims, limit = 20_000, 1000
	before := liveHeap()
	o := manyClaims(t, claims)
	used := (float64(liveHeap()) - float64(before)) / claims
	t.Logf("%d claims: %.0f bytes a claim", claims, used)
	require.Less(t, used, float64(limit), "bytes a claim")
	require.Len(t, o.index.claims, claims)
}

func BenchmarkConflicts(b *testing.B) {
	o := manyClaims(b, 20_000)
	uid := numberedClaim(b, 7777, 1).UID
	for b.Loop() {
		if o.lost(uid) != nil {
			b.Fatal("unexpected conflict")
		}
	}
}

// BenchmarkEvent is an update of an allocated claim that does not concern the allocation.
func BenchmarkEvent(b *testing.B) {
	o := manyClaims(b, 20_000)
	claim := numberedClaim(b, 7777, 1)
	version := uint64(30_000)
	for b.Loop() {
		version++
		claim.ResourceVersion = fmt.Sprint(version)
		_ = feed{o}.Update(claim)
		feed{o}.UpdateResourceVersion(claim.ResourceVersion)
	}
}

// BenchmarkAllocation is an allocation that was made, and one that was released.
func BenchmarkAllocation(b *testing.B) {
	o := manyClaims(b, 20_000)
	o.OnConflict(func(Conflict) { b.Error("unexpected conflict") })
	allocated := numberedClaim(b, 20_001, 1)
	released := allocated.DeepCopy()
	released.Status.Allocation = nil
	version := uint64(30_000)
	for b.Loop() {
		for _, claim := range []*resourceapi.ResourceClaim{allocated, released} {
			version++
			claim.ResourceVersion = fmt.Sprint(version)
			_ = feed{o}.Update(claim)
			feed{o}.UpdateResourceVersion(claim.ResourceVersion)
		}
	}
}

// BenchmarkList is the first list of a cluster with many claims.
func BenchmarkList(b *testing.B) {
	listed := make([]any, 20_000)
	for i := range listed {
		listed[i] = numberedClaim(b, i, uint64(i+2))
	}
	b.ReportAllocs()
	for b.Loop() {
		o := New(nil, noPools, clock.RealClock{})
		o.OnConflict(func(Conflict) { b.Error("unexpected conflict") })
		_ = feed{o}.Replace(listed, "30000")
	}
}
