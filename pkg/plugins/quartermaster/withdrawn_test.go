package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestDriverGoneBeforeTheCommit: the kubelet deletes the slices of a driver that is gone. Nothing is written for a pod
// that was to get its devices, and the pod looks for others (kubernetes #141912). While the pool is being updated, this
// is unknown.
func TestDriverGoneBeforeTheCommit(t *testing.T) {
	t.Parallel()
	slice := builder.NodeSlice("n1", builder.Devices("gpu-0")...)
	for name, tc := range map[string]struct {
		change func(f *fixture)
		gone   bool
	}{
		"slices deleted":       {change: func(f *fixture) { f.remove(slice.Obj()) }, gone: true},
		"device withdrawn":     {change: func(f *fixture) { f.replace(builder.NodeSlice("n1", builder.Devices("gpu-1")...).Obj()) }, gone: true},
		"pool is updated":      {change: func(f *fixture) { f.replace(builder.NodeSlice("n1").InPool("n1", 2, 2).Obj()) }},
		"published once again": {change: func(f *fixture) { f.remove(slice.Obj()); f.create(slice.Obj()) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := newPod("p", uses("c"))
			inCluster(t, plus(nil, builder.Node("n1"), builder.Class("gpu"), slice.Obj(), gpus("c", 1).Obj(), pod), func(t *testing.T, f *fixture) {
				a := f.mustBegin(pod).filter()
				require.NoError(t, a.reserve("n1").AsError())
				tc.change(f)
				f.settle()
				status := a.preBind("n1")
				if !tc.gone {
					require.NoError(t, status.AsError())
					return
				}
				require.Contains(t, status.Message(), "claim default/c was to get device gpu.example.com/n1/gpu-0 but its driver does not publish that any more; looking for other devices")
				a.unreserve("n1")
				require.Nil(t, f.claim("c").Status.Allocation)
			})
		})
	}
}

// TestDeviceWithdrawnInUse: half of a device is in use, and its driver no longer publishes it. The whole device is not
// allocated while that lasts, and a pod that waits for it is woken afterwards (kubernetes #140802). A scheduler that
// starts meanwhile allocates nothing of the pool, and says why.
func TestDeviceWithdrawnInUse(t *testing.T) {
	t.Parallel()
	counters := func(n int64) *resourceapi.ResourceSlice {
		return builder.Slice("counters").InPool("n1", n, 2).OnNode("n1").Counters("set", "memory", "2").Obj()
	}
	devices := func(n int64, list ...*builder.DeviceBuilder) *resourceapi.ResourceSlice {
		return builder.Slice("devices").InPool("n1", n, 2).OnNode("n1").Devices(list...).Obj()
	}
	half, whole := builder.Device("half").Consumes("set", "memory", "1"), builder.Device("whole").Consumes("set", "memory", "2")
	waiting := newPod("waiting", uses("c"))
	objects := plus(nil, builder.Node("n1"), builder.Class("gpu"), counters(1), devices(1, half, whole), gpus("holding", 1).Allocated("n1", "half"), gpus("c", 1).Obj(), waiting)
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		f.replace(counters(2))
		f.replace(devices(2, whole))
		f.settle()
		reason := f.mustBegin(waiting).filter().reasons["n1"]
		require.Contains(t, reason, "cannot allocate all claims: claim default/c request gpu: 1 device matches: 1 asked; 0 free; 1 draws on counters that have too little left (memory: 2 asked and 1 of 2 left)")

		f = f.restart()
		reason = f.mustBegin(waiting).filter().reasons["n1"]
		require.Contains(t, reason, "draws on the same counters as devices in use that are not published any more (half)")
		f.sleep(waiting)
		f.changeClaim("holding", deallocate)
		f.settle()
		require.Equal(t, []string{"default/waiting"}, f.names())
		require.Empty(t, f.schedule(waiting).phase)
		require.Equal(t, []string{"n1/whole"}, deviceNames(f.claim("c")))
	})
}
