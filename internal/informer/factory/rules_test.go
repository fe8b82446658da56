package factory

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/utils/ptr"
)

// TestRuleMeetsGrowingSlice: a driver adds a device at the moment at which a rule arrives. The tracker handles the rule
// before the slice, whose handler is held up here, and panics. It may be held up for long: after a list there are many slices.
func TestRuleMeetsGrowingSlice(t *testing.T) {
	for _, busy := range []time.Duration{100 * time.Millisecond, time.Minute} {
		t.Run(busy.String(), func(t *testing.T) { testRuleMeetsGrowingSlice(t, busy) })
	}
}

func testRuleMeetsGrowingSlice(t *testing.T, busy time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: "p", ResourceSliceCount: 1}, NodeName: ptr.To("n"),
			Devices: []resourceapi.Device{{Name: "gpu-0"}},
		}}
		client := fake.NewClientset(slice)
		factory := WithSafeHandlers(informers.NewSharedInformerFactory(client, 0))
		api := factory.Resource().V1()
		tracked, err := tracker.StartTracker(ctx, tracker.Options{
			EnableDeviceTaintRules: true, SliceInformer: api.ResourceSlices(), TaintInformer: api.DeviceTaintRules(), KubeClient: client,
		})
		require.NoError(t, err)
		held := 0
		_, err = tracked.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, _ any) { held++; time.Sleep(busy) }})
		require.NoError(t, err)
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		synctest.Wait()

		for i := range 2 { // The handler is busy with the first change when the second one is in the store.
			slice = slice.DeepCopy()
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: []string{"gpu-1", "gpu-2"}[i]})
			_, err = client.ResourceV1().ResourceSlices().Update(ctx, slice, metav1.UpdateOptions{})
			require.NoError(t, err)
			synctest.Wait()
		}
		require.Equal(t, 1, held)
		rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: ptr.To("gpu.example.com")},
			Taint:          resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoSchedule},
		}}
		_, err = client.ResourceV1().DeviceTaintRules().Create(ctx, rule, metav1.CreateOptions{})
		require.NoError(t, err)
		time.Sleep(3 * busy)
		synctest.Wait()
		slices, err := tracked.ListPatchedResourceSlices()
		require.NoError(t, err)
		require.Len(t, slices[0].Spec.Devices, 3)
		for _, device := range slices[0].Spec.Devices {
			require.Len(t, device.Taints, 1, device.Name)
		}
		cancel()
		tracked.Stop()
		factory.Shutdown()
	})
}

// TestSurvive: a handler that never returns is not called for ever.
func TestSurvive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		require.Panics(t, func() { survive(func() { calls++; panic("always") }) })
		require.Greater(t, calls, 100)
		require.Less(t, calls, 1000)
	})
}
