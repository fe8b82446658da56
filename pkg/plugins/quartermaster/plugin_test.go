package quartermaster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

func TestAllocatorFeatures(t *testing.T) {
	t.Parallel()
	require.Equal(t, structured.Features{}, allocatorFeatures(feature.Features{}), "nothing is on by itself")
	all := feature.Features{
		EnableDRAAdminAccess: true, EnableDRADeviceTaints: true, EnableDRAListTypeAttributes: true,
		EnableDRAPartitionableDevices: true, EnableDRAPrioritizedList: true,
		EnableDRAConsumableCapacity: true, EnableDRADeviceBindingConditions: true,
	}
	require.Equal(t, structured.Features{
		AdminAccess: true, DeviceTaints: true, ListTypeAttributes: true, PartitionableDevices: true, PrioritizedList: true,
	}, allocatorFeatures(all), "what the plugin cannot do stays off")
	tests := map[string]struct {
		on   feature.Features
		want structured.Features
	}{
		"admin access":     {feature.Features{EnableDRAAdminAccess: true}, structured.Features{AdminAccess: true}},
		"taints":           {feature.Features{EnableDRADeviceTaints: true}, structured.Features{DeviceTaints: true}},
		"lists":            {feature.Features{EnableDRAListTypeAttributes: true}, structured.Features{ListTypeAttributes: true}},
		"partitions":       {feature.Features{EnableDRAPartitionableDevices: true}, structured.Features{PartitionableDevices: true}},
		"prioritized list": {feature.Features{EnableDRAPrioritizedList: true}, structured.Features{PrioritizedList: true}},
	}
	for name, test := range tests {
		require.Equal(t, test.want, allocatorFeatures(test.on), name)
	}
}

func TestRecentPods(t *testing.T) {
	t.Parallel()
	pods := newRecentPods()
	numbered := func(i int) types.UID { return types.UID(fmt.Sprint(i)) }
	for i := range maxRecentPods {
		pods.add(numbered(i))
	}
	require.True(t, pods.has(numbered(0)))
	require.False(t, pods.has(numbered(maxRecentPods)))

	pods.add(numbered(0)) // It is the latest now.
	pods.add(numbered(maxRecentPods))
	require.True(t, pods.has(numbered(maxRecentPods)))
	require.True(t, pods.has(numbered(0)), "was just added again")
	require.False(t, pods.has(numbered(1)), "the oldest goes")
	require.Len(t, pods.known, maxRecentPods)
	require.Len(t, pods.order, maxRecentPods)
}

func TestPendingUndos(t *testing.T) {
	t.Parallel()
	undos := newPendingUndos()
	require.False(t, undos.has("p"))
	undos.begin("p")
	undos.begin("p")
	undos.end("p")
	require.True(t, undos.has("p"))
	require.False(t, undos.has("q"))
	undos.end("p")
	require.False(t, undos.has("p"))
	require.Empty(t, undos.claims)
}

func TestClaimKeysOfPod(t *testing.T) {
	t.Parallel()
	pod := newPod("p", uses("a"), uses("a"), template("gpu"), made("gpu", "p-gpu"), template("nic"), template("none"), made("none", ""))
	keys, err := claimKeysOfPod(pod)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"default/a", "default/p-gpu"}, keys)
	keys, err = claimKeysOfPod(&v1.Node{})
	require.NoError(t, err)
	require.Empty(t, keys)
}
