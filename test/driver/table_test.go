package driver

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// suite is a way of installing the driver, and the examples that are meant for it.
type suite struct {
	options
	examples []example
}

// one is the expectation of most pods.
var one = expected{devices: 1}

// single is an example of one file.
func single(folder string, pods map[string]expected) example {
	return example{folder: folder, steps: []step{{file: filepath.Base(folder) + ".yaml", pods: pods}}}
}

func (e example) withApart(pods ...string) example { e.apart = append(e.apart, pods); return e }
func (e example) withAlike(pods ...string) example { e.alike = append(e.alike, pods); return e }

// suites are by the name of the test.
func suites() map[string]suite {
	return map[string]suite{
		"gpus": {
			options: options{profile: "gpu", nodes: 2, devices: 8, extendedResource: "example.com/gpu",
				environment: map[string]string{"GPU_DEVICE_STATUS": "true"}},
			examples: append(plainExamples(), taintExamples()...),
		},
		"no-extended-name": {
			options: options{profile: "gpu", nodes: 1, devices: 2},
			examples: []example{single("extended-resource-request", map[string]expected{
				"pod0": one, "pod1": {waits: []string{"Insufficient example.com/gpu"}}})},
		},
		"partitions": {
			options: options{profile: "gpu", nodes: 1, devices: 2, slices: 2, environment: map[string]string{"GPU_PARTITIONS": "4"}},
			examples: []example{single("partitionable-devices", map[string]expected{
				"pod0": {devices: 2, requests: []string{"gpu-partition", "gpu-partition"}, environment: []string{"=gpu-0-partition-0", "=gpu-0-partition-1"}}})},
		},
		"shared": {
			options: options{profile: "gpu", nodes: 1, devices: 2, environment: map[string]string{"GPU_ALLOW_MULTIPLE_ALLOCATIONS": "true"}},
			examples: []example{single("gpu-allow-multiple-allocations", map[string]expected{
				"pod0": {devices: 1, environment: []string{"_MEMORY=16Gi", "_COMPUTE=20"}},
				"pod1": {devices: 1, environment: []string{"_MEMORY=16Gi", "_COMPUTE=20"}},
			}).withAlike("pod0", "pod1")},
		},
		"shared-partitions": {
			options: options{profile: "gpu", nodes: 1, devices: 2, slices: 2,
				environment: map[string]string{"GPU_ALLOW_MULTIPLE_ALLOCATIONS": "true", "GPU_PARTITIONS": "4"}},
			examples: []example{single("gpu-allow-multiple-allocations-partitionable", map[string]expected{
				"pod0": {devices: 1, environment: []string{"PARTITION_0=gpu-0-partition-0", "_MEMORY=8Gi", "_COMPUTE=10"}},
				"pod1": {devices: 1, environment: []string{"PARTITION_0=gpu-0-partition-0", "_MEMORY=8Gi", "_COMPUTE=10"}},
			}).withAlike("pod0", "pod1")},
		},
		"binding-conditions": {
			options: options{profile: "gpu", nodes: 1, devices: 1, controller: "BindingConditions",
				environment: map[string]string{"BINDING_CONDITIONS": "true"}},
			// The controller of the driver has said in the claim's status that the device is ready.
			examples: []example{single("binding-conditions", map[string]expected{"pod0": {devices: 1, status: true}})},
		},
		"nics": {
			options: options{profile: "net", nodes: 1, devices: 1},
			examples: []example{single("net-consumable-capacity", map[string]expected{
				"pod0": {devices: 1, environment: []string{"NET_DEVICE_0_INGRESS_RATE=10000000000", "NET_DEVICE_0_EGRESS_RATE=5000000000"}},
				"pod1": {devices: 1, environment: []string{"NET_DEVICE_0_INGRESS_RATE=5000000000", "NET_DEVICE_0_EGRESS_RATE=5000000000"}},
			}).withAlike("pod0", "pod1")},
		},
		"cpus": {
			options: options{profile: "cpu", nodes: 1, environment: map[string]string{"CPU_NUMA_NODES": "1", "CPUS_PER_NUMA_NODE": "2"}},
			// Two shares of one NUMA node. The node's own CPUs are not counted: v0.4.0 says how in a field that 1.37 no longer has.
			examples: []example{single("native-resource-request", map[string]expected{
				"pod0": {devices: 2, requests: []string{"cpu0", "cpu1"}, environment: []string{"CPU_DEVICE_0_CONSUMED_CPU=1"}}})},
		},
	}
}

// plainExamples need nothing but whole GPUs.
func plainExamples() []example {
	return []example{
		single("admin-access", map[string]expected{"pod0": {devices: 8, environment: []string{"DRA_ADMIN_ACCESS=true"}}}),
		single("basic-multiple-requests", map[string]expected{"pod0": {devices: 2, requests: []string{"gpu-1", "gpu-2"}}}),
		single("basic-resourceclaim-opaque-config", map[string]expected{"pod0": {devices: 2, requests: []string{"sp-gpu", "ts-gpu"},
			environment: []string{"TIMESLICE_INTERVAL=Long", "PARTITION_COUNT=10"}}}),
		single("basic-resourceclaimtemplate", map[string]expected{
			"pod0": {devices: 1, status: true, environment: []string{"DRA_ADMIN_ACCESS=false"}}, "pod1": one}).withApart("pod0", "pod1"),
		single("basic-shared-claim-across-containers", map[string]expected{"pod0": {devices: 1, environment: []string{"TIMESLICE_INTERVAL=Default"}}}),
		single("basic-shared-claim-across-pods", map[string]expected{"pod0": one, "pod1": one}).withAlike("pod0", "pod1"),
		single("cel-selector", map[string]expected{"pod0": one}),
		single("extended-resource-request", map[string]expected{"pod0": one, "pod1": one}).withApart("pod0", "pod1"),
		single("initcontainer-shared-gpu", map[string]expected{"pod0": one}),
		single("podgroup-resourceclaimtemplate", map[string]expected{
			"group-1-*": {count: 2, devices: 1}, "group-2-*": {count: 2, devices: 1},
		}).withApart("group-1-*", "group-2-*"),
		single("prioritized-alternatives", map[string]expected{
			"pod0": {devices: 1, requests: []string{"gpu/older-gpu"}},
			"pod1": {devices: 1, requests: []string{"gpu/latest-gpu"}},
		}).withApart("pod0", "pod1"),
	}
}

// taintExamples taint all GPUs. All have a NoExecute taint for scheduling, too: what the driver says of
// pod-no-execute and pod-without-toleration, that they start and are evicted, is of a scheduler without
// DeviceTaintRules.
func taintExamples() []example {
	const folder = "device-taints-tolerations/device-taint-"
	tainted := expected{waits: []string{"taint"}}
	return []example{
		{folder: folder + "pod-noschedule", steps: []step{
			{file: "1-basic-resourceclaimtemplate.yaml"},
			{file: "2-pod-keeps-running.yaml", pods: map[string]expected{"pod-keeps-running": one}},
			{file: "3-device-taint-rule.yaml"},
			{file: "4-pod-not-scheduled.yaml", pods: map[string]expected{"pod-keeps-running": one, "pod-no-schedule": tainted}},
		}},
		{folder: folder + "pod-noexecute", steps: []step{
			{file: "1-basic-resourceclaimtemplate.yaml"},
			{file: "2-pod-to-be-evicted.yaml", pods: map[string]expected{"pod-to-be-evicted": one}},
			{file: "3-device-taint-rule.yaml", gone: []string{"pod-to-be-evicted"}},
			{file: "4-pod-no-execute.yaml", pods: map[string]expected{"pod-no-execute": tainted}},
		}},
		{folder: folder + "pod-toleration", steps: []step{
			{file: "1-device-taint-rule.yaml"},
			{file: "2-basic-resourceclaimtemplate.yaml", pods: map[string]expected{"pod-with-toleration": one, "pod-without-toleration": tainted}},
		}},
		{folder: folder + "configurable-pod-eviction-time", steps: []step{
			{file: "1-basic-resourceclaimtemplate.yaml", pods: map[string]expected{
				"pod-no-toleration": one, "pod-with-toleration": one, "pod-with-300s-toleration": one}},
			// The third one goes after five minutes.
			{file: "2-device-taint-rule.yaml", gone: []string{"pod-no-toleration"}, pods: map[string]expected{
				"pod-with-toleration": one, "pod-with-300s-toleration": one}},
		}},
	}
}

// TestExamples has the driver installed in all ways that its examples are meant for, and these scheduled.
func TestExamples(t *testing.T) {
	ours := scheduler(t)
	for name, suite := range suites() {
		t.Run(name, func(t *testing.T) {
			// Each is a cluster of its own. What was asked for in others has no part in which device is chosen: the
			// scheduler learns what is likely to come (docs/placement.md).
			require.NoError(t, ours.Stop())
			require.NoError(t, ours.Restart(t.Context()))
			i := install(t, suite.options)
			for _, example := range suite.examples {
				t.Log(example.folder)
				i.run(example)
			}
			for _, k := range i.kubelets {
				t.Logf("%s: %d claims were prepared and unprepared", k.node, k.unprepared)
			}
		})
	}
}

// TestEveryExampleIsExpected fails if there is an example of which nothing is expected.
func TestEveryExampleIsExpected(t *testing.T) {
	expected := make(map[string]bool)
	for _, suite := range suites() {
		for _, example := range suite.examples {
			for _, step := range example.steps {
				expected[filepath.Join(example.folder, step.file)] = true
			}
		}
	}
	files := filesOf(t, examplesFolder(t), "")
	require.NotEmpty(t, files)
	for _, file := range files {
		require.Contains(t, expected, file, "the table of suites() does not have it")
	}
	for file := range expected {
		require.True(t, slices.Contains(files, file), "the driver has no example %s any more", file)
	}
}
