package inventory

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestReachIndex compares the index with each slice and device asked about each node.
func TestReachIndex(t *testing.T) {
	for seed := range int64(300) {
		random := rand.New(rand.NewSource(seed))
		var slices *members
		for i := range 1 + random.Intn(8) {
			slices = slices.with(NewSlice(randomReach(random, fmt.Sprint("s", i)), new(Content)))
		}
		pool := newPool(PoolID{"d", "p"}, slices, scopedRules{}, Options{PartitionableDevices: random.Intn(8) > 0}).built()
		seen := make(map[string]string) // what a node sees, by key of the index
		for i := range 12 {
			node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), Labels: map[string]string{"zone": fmt.Sprint(i % 3)}}}
			if i%2 == 0 {
				node.Labels["host"] = node.Name
			}
			reached, key := pool.reachIndex().of(node)
			var sees string
			for number, slice := range pool.slices {
				want := !pool.ignores(slice) && slice.reaches(node)
				require.Equal(t, want, reached.Has(number), "seed %d, slice %s, node %s", seed, slice.Name, node.Name)
				sees += fmt.Sprint(want)
				for _, device := range slice.deviceReach {
					sees += fmt.Sprint(want && device.matches(node))
				}
			}
			if known, found := seen[string(key)]; found {
				require.Equal(t, known, sees, "seed %d, node %s shares a view with one that sees something else", seed, node.Name)
			}
			seen[string(key)] = sees
			if view := pool.OnNode(node); pool.uniform {
				require.Equal(t, reached.Empty(), view == nil)
			}
		}
	}
}

// randomReach makes a slice for some nodes, or one whose devices are.
func randomReach(random *rand.Rand, name string) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	slice.Spec.Driver, slice.Spec.Pool = "d", resourceapi.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: 3}
	who := func() (nodeName *string, allNodes *bool, selector *v1.NodeSelector) {
		switch random.Intn(5) {
		case 0:
			return ptr.To(fmt.Sprint("n", random.Intn(12))), nil, nil
		case 1:
			return nil, ptr.To(true), nil
		case 2:
			return nil, nil, nil
		}
		selector = new(v1.NodeSelector)
		for range 1 + random.Intn(2) {
			var term v1.NodeSelectorTerm
			for range random.Intn(3) {
				term.MatchExpressions = append(term.MatchExpressions, randomRequirement(random))
			}
			if random.Intn(4) == 0 {
				term.MatchFields = []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{fmt.Sprint("n", random.Intn(12))}}}
			}
			selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, term)
		}
		return nil, nil, selector
	}
	if random.Intn(2) == 0 {
		slice.Spec.NodeName, slice.Spec.AllNodes, slice.Spec.NodeSelector = who()
		slice.Spec.Devices = []resourceapi.Device{{Name: name}}
		return slice
	}
	slice.Spec.PerDeviceNodeSelection = ptr.To(true)
	for i := range 1 + random.Intn(12) {
		device := resourceapi.Device{Name: fmt.Sprint(name, i)}
		device.NodeName, device.AllNodes, device.NodeSelector = who()
		slice.Spec.Devices = append(slice.Spec.Devices, device)
	}
	return slice
}

func randomRequirement(random *rand.Rand) v1.NodeSelectorRequirement {
	key, value := "zone", fmt.Sprint(random.Intn(3))
	if random.Intn(2) == 0 {
		key, value = "host", fmt.Sprint("n", random.Intn(12))
	}
	r := v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{value}}
	switch random.Intn(6) {
	case 0:
		r.Operator = v1.NodeSelectorOpNotIn
	case 1:
		r.Operator, r.Values = v1.NodeSelectorOpExists, nil
	case 2:
		r.Values = append(r.Values, "1", "n3")
	}
	return r
}
