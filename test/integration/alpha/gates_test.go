package alpha

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	sick       = "example.com/sick"
	noSchedule = resourceapi.DeviceTaintEffectNoSchedule
)

// Schedulers with single gates flipped: each schedules pods, and does with devices that
// are about the gate what kube-scheduler does with them. Gates that others depend on
// are flipped with those. TestAttributes, TestCompatibilityGroups and TestNodes have the
// gates that are off by default.
func TestGates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		gates map[string]bool
		check func(*space)
		also  bool // It does the same as without the gates.
	}{
		"defaults":                    {nil, usualDevices, false},
		"no beta features":            {map[string]bool{"AllBeta": false}, exclusivelyAllocated, false},
		"DRAConsumableCapacity":       {map[string]bool{"DRAConsumableCapacity": false, "DRAFractionalCapacityRange": false}, exclusivelyAllocated, false},
		"DRAPartitionableDevices":     {map[string]bool{"DRAPartitionableDevices": false}, partitionsRefused, false},
		"DRADeviceTaints":             {map[string]bool{"DRADeviceTaints": false, "DRADeviceTaintRules": false}, taintsIgnored, false},
		"DRADeviceTaintRules":         {map[string]bool{"DRADeviceTaintRules": false}, rulesIgnored, false},
		"DRADeviceBindingConditions":  {map[string]bool{"DRADeviceBindingConditions": false}, conditionsRefused, false},
		"DRASchedulerFilterTimeout":   {map[string]bool{"DRASchedulerFilterTimeout": false}, usualDevices, true},
		"SchedulerQueueingHints":      {map[string]bool{"SchedulerPopFromBackoffQ": false, "SchedulerAsyncPreemption": false}, usualDevices, true},
		"SchedulerPreQueueingHints":   {map[string]bool{"SchedulerPreQueueingHints": true}, usualDevices, true},
		"InPlacePodVerticalScaling":   {map[string]bool{"InPlacePodVerticalScalingSchedulerPreemption": true}, usualDevices, true},
		"DRAListTypeAttributes":       {map[string]bool{"DRAListTypeAttributes": true}, usualDevices, true},
		"DRANodeAllocatableResources": {map[string]bool{"DRANodeAllocatableResources": true}, usualDevices, true},
	} {
		t.Run(name, func(t *testing.T) {
			if test.also {
				harness.Long(t, "a scheduler starts, and does what it does with the gates as they are by default")
			}
			t.Parallel()
			s := &space{cluster.NewSpace(t, "gate-"+strings.ToLower(strings.ReplaceAll(name, " ", "")), "", 1)}
			s.StartScheduler(harness.SchedulerOptions{FeatureGates: test.gates})
			test.check(s)
		})
	}
}

// usualDevices: devices that every scheduler can allocate, and no more than there are.
func usualDevices(s *space) {
	s.Devices(0, harness.Numbered(2)...)
	s.ClaimAndPod("one", s.Want(1))
	s.Create(builder.Claim("two", builder.FirstAvailable("gpu",
		s.Want(8).Named("many"), s.Want(1).Named("one"))).Obj(), s.Pod("two", builder.Uses("two")))
	s.Running("one", "two")
	s.ClaimAndPod("late", s.Want(1))
	s.Waiting("late", "claim "+s.Name+"/late", "request gpu", "held by other claims")
	s.DeletePod("one")
	s.RunningSoon("late")
}

func exclusivelyAllocated(s *space) {
	s.Devices(0, builder.Device("nic").Shared().Capacity("bandwidth", "10"))
	s.ClaimAndPod("share", s.Want(1).Capacity("bandwidth", "1"))
	s.Waiting("share", "claim "+s.Name+"/share request gpu: asks for capacity but the feature DRAConsumableCapacity is off")
	s.ClaimAndPod("first", s.Want(1))
	s.Running("first")
	require.Nil(s.T, s.Results("first")[0].ShareID)
	s.ClaimAndPod("second", s.Want(1))
	s.Waiting("second", "claim "+s.Name+"/second", "request gpu", "held by another claim")
	s.DeletePod("first")
	s.RunningSoon("second")
}

func partitionsRefused(s *space) {
	part := func(name string) *builder.SliceBuilder {
		return builder.Slice(s.Name+"-"+name).OfDriver(s.Driver).OnNode(s.Node(0)).InPool(s.Node(0), 1, 2)
	}
	s.Create(part("counters").Counters("gpu", "memory", "40Gi").Obj(), part("devices").Devices(
		builder.Device("part").Consumes("gpu", "memory", "10Gi"), builder.Device("plain")).Obj())
	s.ClaimAndPod("two", s.Want(2))
	s.Waiting("two", "claim "+s.Name+"/two", "request gpu", "a feature that is off (DRAPartitionableDevices)")
	s.ClaimAndPod("one", s.Want(1))
	s.Running("one")
	require.Equal(s.T, []string{s.Node(0) + "/plain"}, s.DeviceNames("one"))
}

func taintsIgnored(s *space) {
	s.Devices(0, builder.Device("gpu").Taint(sick, noSchedule))
	s.ClaimAndPod("one", s.Want(1))
	s.Running("one")
}

// Taints that the driver has published count all the same.
func rulesIgnored(s *space) {
	s.Create(builder.TaintRule(s.Name, s.Driver, s.Node(0), "gpu-0", sick, noSchedule))
	s.Devices(0, builder.Device("gpu-0"), builder.Device("gpu-1").Taint(sick, noSchedule))
	s.ClaimAndPod("two", s.Want(2))
	s.Waiting("two", "claim "+s.Name+"/two", "taint")
	s.ClaimAndPod("one", s.Want(1))
	s.Running("one")
	require.Equal(s.T, []string{s.Node(0) + "/gpu-0"}, s.DeviceNames("one"))
}

func conditionsRefused(s *space) {
	s.Devices(0, builder.Device("fabric").Modify(func(d *resourceapi.Device) {
		d.BindingConditions, d.BindingFailureConditions = []string{"attached"}, []string{"failed"}
	}), builder.Device("plain"))
	s.ClaimAndPod("two", s.Want(2))
	s.Waiting("two", "claim "+s.Name+"/two", "request gpu", "feature that is off (DRADeviceBindingConditions)")
	s.ClaimAndPod("one", s.Want(1))
	s.Running("one")
	require.Equal(s.T, []string{s.Node(0) + "/plain"}, s.DeviceNames("one"))
}

// Gates that are locked in 1.37, and what an older version that is emulated makes of them.
func TestLockedGates(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, name string, args ...string) error {
		scheduler, err := cluster.StartScheduler(t.Context(), harness.SchedulerOptions{Name: "locked-" + name, Profile: "locked-" + name, ExtraArgs: args})
		if err == nil {
			require.NoError(t, scheduler.Stop())
		}
		return err
	}
	for _, gate := range []string{"DynamicResourceAllocation", "DRAAdminAccess", "DRAExtendedResource", "DRAPrioritizedList", "DRAResourceClaimDeviceStatus"} {
		t.Run(gate, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, start(t, strings.ToLower(gate), "--feature-gates="+gate+"=false"), "feature is locked to true")
		})
	}
	t.Run("no devices at all", func(t *testing.T) {
		t.Parallel()
		require.ErrorContains(t, start(t, "none", "--emulated-version=1.34", "--feature-gates=DynamicResourceAllocation=false,"+
			"DRAPrioritizedList=false,DRAAdminAccess=false,DRASchedulerFilterTimeout=false"),
			"plugin Quartermaster: it allocates devices but the feature gate DynamicResourceAllocation is off")
	})
	t.Run("no alternatives", func(t *testing.T) {
		t.Parallel()
		s := &space{cluster.NewSpace(t, "noalternatives", "", 1)}
		s.StartScheduler(harness.SchedulerOptions{ExtraArgs: []string{"--emulated-version=1.36", "--feature-gates=DRAPrioritizedList=false"}})
		s.Devices(0, harness.Numbered(1)...)
		s.Create(builder.Claim("choice", builder.FirstAvailable("gpu", s.Want(1).Named("only"))).Obj(),
			s.Pod("choice", builder.Uses("choice")))
		s.Waiting("choice", "claim "+s.Name+"/choice request gpu: has alternatives (firstAvailable) but the feature DRAPrioritizedList is off")
		s.ClaimAndPod("plain", s.Want(1))
		s.Running("plain")
	})
}
