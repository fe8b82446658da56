package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
)

// TestExtendedWokenByFreedDevices: a pod waits for devices that other claims hold.
func TestExtendedWokenByFreedDevices(t *testing.T) {
	t.Parallel()
	objects := append(servedNodes(1, "n1"), gpus("held", 1).Allocated("n1", "gpu-0"),
		gpus("nic", 1).Modify(func(claim *resourceapi.ResourceClaim) { claim.Namespace = builder.Namespace }).Allocated("n1-nics", "nic-0"))
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		pod := gpuPod("p", "1")
		f.create(pod)
		f.settle()
		require.Equal(t, "Filter", f.schedule(pod).phase)
		f.settle()
		require.Empty(t, f.names())
		f.changeClaim("nic", deallocate)
		f.settle()
		require.Empty(t, f.names(), "a device in a pool without devices for it")
		f.changeClaim("held", deallocate)
		f.settle()
		require.Equal(t, []string{"default/p"}, f.names())
	})
}

// TestExtendedWokenByEndOfAnotherPod: its claim goes, and with it the devices.
func TestExtendedWokenByEndOfAnotherPod(t *testing.T) {
	t.Parallel()
	inCluster(t, servedNodes(1, "n1"), func(t *testing.T, f *fixture) {
		first, second := gpuPod("first", "1"), gpuPod("second", "1")
		f.create(first)
		f.create(second)
		a := f.bound(first, "n1")
		f.settle()
		require.Equal(t, "Filter", f.schedule(second).phase)
		a.unreserve("n1")
		f.settle()
		require.Equal(t, []string{"default/second"}, f.names(), "and not the pod whose attempt failed")
	})
}

// withoutDevices runs a test with a pod that was rejected because there are no devices for
// the extended resource that it asks for.
func withoutDevices(t *testing.T, test func(t *testing.T, f *fixture, pod *v1.Pod)) {
	objects := []runtime.Object{serving(builder.Class("gpu", `device.driver == "gpu.example.com"`), gpuResource), builder.Node("n1")}
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		pod := gpuPod("p", "1")
		f.create(pod)
		f.settle()
		require.Equal(t, "Filter", f.schedule(pod).phase)
		test(t, f, pod)
	})
}

// TestExtendedWokenBySlices: a pod waits for devices that do not exist yet.
func TestExtendedWokenBySlices(t *testing.T) {
	t.Parallel()
	withoutDevices(t, func(t *testing.T, f *fixture, _ *v1.Pod) {
		f.create(builder.NodeSlice("n2", builder.Device("nic-0")).OfDriver("nic.example.com").Obj())
		f.settle()
		require.Empty(t, f.names(), "slice with other devices")
		f.create(builder.NodeSlice("n1", builder.Device("gpu-0")).Obj())
		f.settle()
		require.Equal(t, []string{"default/p"}, f.names())
	})
}

func TestHintsForExtendedResources(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		hint          func(*Quartermaster, klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error)
		before, after runtime.Object
		want          fwk.QueueingHint
	}{
		"node":                            {hint: (*Quartermaster).isSchedulableAfterNodeChange, after: builder.Node("n2"), want: fwk.Queue},
		"node with another device plugin": {hint: (*Quartermaster).isSchedulableAfterNodeChange, before: builder.Node("n1"), after: offering("n1", gpuResource, "1"), want: fwk.Queue},
		"its class":                       {hint: (*Quartermaster).isSchedulableAfterClassChange, before: servingClass("gpu", gpuResource), after: serving(builder.Class("gpu", "true"), gpuResource), want: fwk.Queue},
		"its class in nothing but labels": {hint: (*Quartermaster).isSchedulableAfterClassChange, before: servingClass("gpu", gpuResource), after: servingClass("gpu", gpuResource)},
		"its class serves another one":    {hint: (*Quartermaster).isSchedulableAfterClassChange, before: servingClass("gpu", gpuResource), after: servingClass("gpu", nicResource), want: fwk.Queue},
		"another class for the resource":  {hint: (*Quartermaster).isSchedulableAfterClassChange, after: servingClass("new", gpuResource), want: fwk.Queue},
		"another class":                   {hint: (*Quartermaster).isSchedulableAfterClassChange, after: servingClass("new", nicResource)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withoutDevices(t, func(t *testing.T, f *fixture, pod *v1.Pod) {
				var before any
				if test.before != nil {
					before = test.before
				}
				got, err := test.hint(f.pl, klog.Background(), pod, before, test.after)
				require.NoError(t, err)
				require.Equal(t, test.want, got)
			})
		})
	}
}
