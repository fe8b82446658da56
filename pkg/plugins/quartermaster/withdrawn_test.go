package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
)

// TestDeviceWithdrawnInUse: half of a device is in use and its driver does not publish it any more. The whole device is not
// given away as long as that is so, and its pod is woken when it ends (kubernetes #140802). A scheduler that is started in
// between gives nothing of the pool away, and says why.
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
		require.Contains(t, reason, "draws on counters of which too little is left (memory)")

		f = f.restart()
		reason = f.mustBegin(waiting).filter().reasons["n1"]
		require.Contains(t, reason, "draws on counters of which nobody knows what devices draw that are in use and not published any more (half)")
		f.sleep(waiting)
		f.changeClaim("holding", deallocate)
		f.settle()
		require.Equal(t, []string{"default/waiting"}, f.names())
		require.Empty(t, f.schedule(waiting).phase)
		require.Equal(t, []string{"n1/whole"}, deviceNames(f.claim("c")))
	})
}
