package compat

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// Administrative access takes nothing from others, and is given where everything is in use. From
// 1.33 on, only namespaces with a label may have it.
func TestAdminAccessOfRequests(t *testing.T) {
	t.Parallel()
	needs(t, adminAccess)
	s := newSpace(t, "admin", 1)
	s.Devices(0, harness.Numbered(2)...)
	admin := s.WantAll().Admin()
	s.ClaimAndPod("monitor", admin)
	s.Running("monitor")
	s.ClaimAndPod("user", s.Want(2))
	s.Running("user")
	s.ClaimAndPod("another", admin)
	s.Running("another")
	for _, pod := range []string{"monitor", "another"} {
		for _, result := range s.Results(pod) {
			require.NotNil(t, result.AdminAccess, "device %s of pod %s", result.Device, pod)
			require.True(t, *result.AdminAccess)
		}
	}
	s.ClaimAndPod("late", s.Want(1))
	s.Waiting("late", "claim "+s.Name+"/late request gpu", "held by")
	if minor >= 33 {
		claims := cluster.Client.ResourceV1().ResourceClaims(metav1.NamespaceDefault)
		_, err := claims.Create(t.Context(), builder.Unsaved(metav1.NamespaceDefault, builder.Claim(s.Name, admin).Obj()), metav1.CreateOptions{})
		require.True(t, apierrors.IsInvalid(err) || apierrors.IsForbidden(err), "%v", err)
	}
}

// Devices draw from counters, as many as there is for. Up to 1.34, counters and devices are in
// one slice, and two slices may use the same names; later they are apart.
func TestPartitions(t *testing.T) {
	t.Parallel()
	needs(t, partitions)
	s := newSpace(t, "partitions", 1)
	half := func(name string) *builder.DeviceBuilder {
		return builder.Device(name).Consumes("gpu", "memory", "20Gi")
	}
	pool := func(name string, count int64) *builder.SliceBuilder {
		return builder.Slice(s.Node(0)+"-"+name).OfDriver(s.Driver).OnNode(s.Node(0)).InPool(s.Node(0), 1, count)
	}
	gpu := func(of *builder.SliceBuilder) *builder.SliceBuilder { return of.Counters("gpu", "memory", "40Gi") }
	together := 2
	if minor <= 34 {
		// The second slice has a set of the same name, from which one device can draw.
		together = 3
		s.Create(gpu(pool("first", 2)).Devices(half("half-0"), half("half-1"), half("half-2")).Obj(),
			pool("second", 2).Counters("gpu", "memory", "20Gi").Devices(half("half-3"), half("half-4")).Obj())
	} else {
		s.Create(gpu(pool("counters", 2)).Obj(), pool("devices", 2).Devices(half("half-0"), half("half-1"), half("half-2")).Obj())
	}
	for i := range together {
		name := fmt.Sprintf("user-%d", i)
		s.ClaimAndPod(name, s.Want(1))
		s.Running(name)
	}
	s.ClaimAndPod("late", s.Want(1))
	s.Waiting("late", "claim "+s.Name+"/late request gpu", "memory")
	s.DeletePod("user-0")
	s.RunningSoon("late")
}

// Claims share the capacity of a device until it is used up.
func TestConsumableCapacity(t *testing.T) {
	t.Parallel()
	needs(t, consumable)
	s := newSpace(t, "consumable", 1)
	s.Devices(0, builder.Device("nic").Shared().Capacity("bandwidth", "10G"))
	share := s.Want(1).Capacity("bandwidth", "4G")
	for _, name := range []string{"first", "second"} {
		s.ClaimAndPod(name, share)
		s.Running(name)
		result := s.Results(name)[0]
		require.NotNil(t, result.ShareID)
		amount := result.ConsumedCapacity["bandwidth"]
		require.Equal(t, "4G", amount.String())
	}
	s.ClaimAndPod("late", share)
	s.Waiting("late", "claim "+s.Name+"/late request gpu", "too little capacity left (bandwidth:")
	s.DeletePod("first")
	s.RunningSoon("late")
}

// A pod is bound only when its device is ready.
func TestBindingConditions(t *testing.T) {
	t.Parallel()
	needs(t, bindingConditions)
	s := newSpace(t, "conditions", 1)
	s.Devices(0, attachedFirst())
	s.ClaimAndPod("user", s.Want(1))
	s.Eventually("allocate the device", allocated(s, "user"))
	require.Empty(t, s.LivePod("user").Spec.NodeName, "nobody has said that the device is ready")
	s.UpdateClaimStatus("user", func(c *resourceapi.ResourceClaim) {
		result := c.Status.Allocation.Devices.Results[0]
		require.Equal(t, []string{"attached"}, result.BindingConditions)
		c.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
			Driver: result.Driver, Pool: result.Pool, Device: result.Device,
			Conditions: []metav1.Condition{{Type: "attached", Status: metav1.ConditionTrue, LastTransitionTime: metav1.Now(), Reason: "Tested", Message: "said the driver"}},
		}}
	})
	s.RunningSoon("user")
}

// Drivers taint devices in their slices.
func TestDeviceTaints(t *testing.T) {
	t.Parallel()
	needs(t, deviceTaints)
	s := newSpace(t, "taints", 1)
	s.Devices(0, builder.Device("gpu-0").Taint("example.com/sick", resourceapi.DeviceTaintEffectNoSchedule))
	s.ClaimAndPod("user", s.Want(1))
	s.Waiting("user", "claim "+s.Name+"/user", "has a taint that is not tolerated (example.com/sick)")
	s.ClaimAndPod("tolerant", s.Want(1).Tolerate("example.com/sick"))
	s.Running("tolerant")
}

// attachedFirst is a device that has to be attached before a pod can use it.
func attachedFirst() *builder.DeviceBuilder {
	return builder.Device("gpu-0").BindingCondition("attached").BindingFailureCondition("broken")
}

// allocated is nil as soon as a claim has devices.
func allocated(s *harness.Space, claim string) func(context.Context) error {
	return func(ctx context.Context) error {
		found, err := s.Cluster.Client.ResourceV1().ResourceClaims(s.Name).Get(ctx, claim, metav1.GetOptions{})
		if err == nil && found.Status.Allocation == nil {
			err = errors.New("it has no devices")
		}
		return err
	}
}
