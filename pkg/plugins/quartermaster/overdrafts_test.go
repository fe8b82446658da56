package quartermaster

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/commit/conflicts"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// partitions are the two slices of a pool whose devices cannot all be used at once.
func partitions() (counters, devices *resourceapi.ResourceSlice) {
	return builder.Slice("counters").InPool("n1", 1, 2).OnNode("n1").Counters("memory", "size", "40Gi").Obj(),
		builder.Slice("partitions").InPool("n1", 1, 2).OnNode("n1").Devices(
			builder.Device("big").Consumes("memory", "size", "30Gi"), builder.Device("small").Consumes("memory", "size", "20Gi")).Obj()
}

// overdrawnWorld has two claims with pods, c and conflicting, and some slices.
func overdrawnWorld(slices ...runtime.Object) []runtime.Object {
	return append([]runtime.Object{builder.Node("n1"), builder.Class("gpu"), gpus("c", 1).Obj(), gpus("conflicting", 1).Obj(),
		newPod("p", uses("c")), newPod("q", uses("conflicting"))}, slices...)
}

// overdraw has the two claims use more of the counter than there is, c first.
func (f *fixture) overdraw() {
	f.changeClaim("c", allocate("n1", "big"))
	f.changeClaim("c", reservedFor("p"))
	f.changeClaim("conflicting", allocate("n1", "small"))
	f.changeClaim("conflicting", reservedFor("q"))
}

// TestOverdraftsAreReported whatever is known of the pool when they come about.
func TestOverdraftsAreReported(t *testing.T) {
	t.Parallel()
	counters, devices := partitions()
	tests := map[string]struct {
		slices []runtime.Object // at the start
		// overdraw the counters, with all that happens to slices.
		overdraw func(*fixture)
	}{
		"of a complete pool": {[]runtime.Object{counters, devices}, (*fixture).overdraw},
		"while the pool is published anew": {[]runtime.Object{counters, devices}, func(f *fixture) {
			f.remove(devices)
			f.settle()
			f.overdraw()
		}},
		"before the pool is complete": {[]runtime.Object{devices}, func(f *fixture) {
			f.overdraw()
			time.Sleep(time.Minute)
			f.settle()
			require.Empty(f.t, f.eventTexts())
			f.create(counters)
		}},
		"before any of it is known": {nil, func(f *fixture) {
			f.overdraw()
			time.Sleep(time.Minute)
			f.settle()
			require.Empty(f.t, f.eventTexts())
			f.create(counters)
			f.create(devices)
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, overdrawnWorld(test.slices...), func(t *testing.T, f *fixture) {
				f.pl.args.OnConflict = EvictOnConflict
				test.overdraw(f)
				time.Sleep(2 * conflicts.Grace)
				f.settle()
				texts := f.eventTexts()
				require.Len(t, texts, 4, "both claims and both pods: %q", texts)
				for _, text := range texts {
					require.Contains(t, text, "Warning DeviceConflict")
					require.Contains(t, text, "counter memory/size")
				}
				require.Equal(t, []string{"q"}, f.evictions())
				f.remove(counters)
				f.settle()
				f.create(counters)
				time.Sleep(time.Minute)
				f.settle()
				require.Empty(t, f.eventTexts(), "told already")
			})
		})
	}
}

// TestNoReportOfAShortOverdraft: a claim that yields in time is not reported.
func TestNoReportOfAShortOverdraft(t *testing.T) {
	t.Parallel()
	counters, devices := partitions()
	inCluster(t, overdrawnWorld(counters, devices), func(t *testing.T, f *fixture) {
		f.overdraw()
		time.Sleep(conflicts.Grace / 2)
		f.changeClaim("conflicting", deallocate)
		time.Sleep(time.Minute)
		f.settle()
		require.Empty(t, f.eventTexts())
	})
}

// share gives a claim a part of a device.
func share(pool, device, id, memory string) func(*resourceapi.ResourceClaim) {
	return func(claim *resourceapi.ResourceClaim) {
		allocate(pool, device)(claim)
		result := &claim.Status.Allocation.Devices.Results[0]
		result.ShareID = ptr.To(types.UID(id))
		result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory)}
	}
}

// TestLoweredCapacity: if a driver lowers a capacity that many claims share, each claim and each pod gets one event,
// not one for each pair of claims.
func TestLoweredCapacity(t *testing.T) {
	t.Parallel()
	const claims, left = 30, 10
	nic := func(generation int64, memory int) *resourceapi.ResourceSlice {
		return builder.Slice("nic").InPool("n1", generation, 1).OnNode("n1").Devices(
			builder.Device("nic").Shared().Capacity("memory", fmt.Sprintf("%dGi", memory))).Obj()
	}
	objects := []runtime.Object{builder.Node("n1"), builder.Class("gpu"), nic(1, claims)}
	for i := range claims + 1 {
		objects = append(objects, gpus(fmt.Sprint("c", i), 1).Obj(), newPod(fmt.Sprint("p", i), uses(fmt.Sprint("c", i))))
	}
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		f.pl.args.OnConflict = EvictOnConflict
		take := func(i int) {
			f.changeClaim(fmt.Sprint("c", i), share("n1", "nic", fmt.Sprint("share-", i), "1Gi"))
			f.changeClaim(fmt.Sprint("c", i), reservedFor(fmt.Sprint("p", i)))
		}
		for i := range claims {
			take(i)
		}
		lowered := nic(2, left)
		f.replace(lowered)
		var texts []string
		for range 10 {
			time.Sleep(conflicts.Grace / 2)
			f.settle()
			texts = append(texts, f.eventTexts()...)
		}
		require.Len(t, texts, 2*claims, "each claim and each pod once")
		require.Contains(t, texts[0], "30 claims have more than there is of capacity memory of device nic of pool "+builder.Driver+"/n1")
		require.Len(t, f.evictions(), claims-left)

		take(claims)
		time.Sleep(2 * conflicts.Grace)
		f.settle()
		require.Len(t, f.eventTexts(), 2, "of one more, only that one is told")
	})
}

// TestJoinsAfterLoweredCapacity: a driver lowers the capacity of a device that two claims share. Pods may still join the claims that pods
// on nodes use already, as upstream has it.
func TestJoinsAfterLoweredCapacity(t *testing.T) {
	t.Parallel()
	nic := func(generation int64, memory string) *resourceapi.ResourceSlice {
		return builder.Slice("nic").InPool("n1", generation, 1).OnNode("n1").Devices(builder.Device("nic").Shared().Capacity("memory", memory)).Obj()
	}
	objects := []runtime.Object{builder.Node("n1"), builder.Class("gpu"), nic(1, "2Gi")}
	for _, claim := range []string{"first", "second"} {
		objects = append(objects, gpus(claim, 1).Obj(), boundTo(newPod("runs-"+claim, uses(claim)), "n1"), newPod("joins-"+claim, uses(claim)))
	}
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		for _, claim := range []string{"first", "second"} {
			f.otherInstanceAllocates(claim, "n1", "nic", share("n1", "nic", "share-"+claim, "1Gi"))
			f.changeClaim(claim, reservedFor("runs-"+claim))
		}
		f.settle()
		f.replace(nic(2, "1Gi"))
		f.settle()
		for _, claim := range []string{"first", "second"} {
			result := f.schedule(f.pod("joins-" + claim))
			require.Empty(t, result.phase, "%s: %s", claim, result.text())
		}
	})
}
