package whatif_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// node has room for pods.
func node(name string, labels ...string) *v1.Node {
	n := builder.Node(name, labels...)
	n.Status.Allocatable = builder.Resources("cpu", "8", "memory", "32Gi", "pods", "110")
	return n
}

// cluster has so many nodes with so many GPUs each.
func cluster(nodes, gpus int) whatif.Objects {
	o := whatif.Objects{
		Classes:   []*resourceapi.DeviceClass{builder.DriverClass(builder.Driver)},
		Templates: []*resourceapi.ResourceClaimTemplate{template("one", 1), template("two", 2)},
	}
	for i := range nodes {
		name := fmt.Sprintf("node-%04d", i)
		o.Nodes = append(o.Nodes, node(name))
		o.Slices = append(o.Slices, builder.NodeSlice(name, builder.NumberedDevices("gpu", gpus)...).Obj())
	}
	return o
}

func template(name string, gpus int64) *resourceapi.ResourceClaimTemplate {
	return builder.Claim(name, builder.Request("gpu", builder.Driver).Count(gpus)).Template()
}

// user is a pod with a claim from a template.
func user(name, template string, edits ...func(*v1.Pod)) *v1.Pod {
	pod := builder.Pod(name, append([]func(*v1.Pod){builder.Using(builder.FromTemplate(template)...)}, edits...)...)
	return pod
}

// holding puts a pod on a node with a claim that it holds.
func holding(o *whatif.Objects, name, node string, devices ...string) {
	claim := builder.Claim(name, builder.Request("gpu", builder.Driver).Count(int64(len(devices)))).Allocated(node, devices...)
	pod := builder.Pod(name, builder.Using(builder.Uses(name)...), func(p *v1.Pod) { p.Spec.NodeName = node })
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}}
	o.Claims, o.Pods = append(o.Claims, claim), append(o.Pods, pod)
}

func fit(t *testing.T, s *whatif.Snapshot, pods ...*v1.Pod) *whatif.Answer {
	t.Helper()
	answer, err := s.Fit(t.Context(), pods...)
	require.NoError(t, err)
	return answer
}

func TestFit(t *testing.T) {
	o := cluster(2, 2)
	holding(&o, "holder", "node-0000", "gpu-0")
	s := whatif.New(o, whatif.Options{})

	answer := fit(t, s, user("a", "two"))
	require.Equal(t, whatif.Fits, answer.Verdict)
	assert.Equal(t, "node-0001", answer.Plans[0].Node)
	assert.Len(t, answer.Plans[0].Claims[0].Status.Allocation.Devices.Results, 2)

	answer = fit(t, s, user("a", "two"), user("b", "one"), user("c", "one"))
	assert.Equal(t, whatif.DoesNotFit, answer.Verdict)
	assert.Len(t, answer.Plans, 2)
	assert.Equal(t, "c", answer.Unplaced[0].Name)

	assert.Equal(t, whatif.Fits, fit(t, s, user("d", "two")).Verdict, "a question changes nothing")
}

// A pod without a place takes no place from other pods, whatever the order; priority decides which
// pod is first.
func TestFitTriesAll(t *testing.T) {
	o := cluster(2, 2)
	holding(&o, "holder", "node-0000", "gpu-0")
	s := whatif.New(o, whatif.Options{})
	names := func(pods []*v1.Pod) (all []string) {
		for _, pod := range pods {
			all = append(all, pod.Name)
		}
		return all
	}
	answer := fit(t, s, user("a", "two"), user("b", "two"), user("c", "two"), user("d", "one"), user("e", "two"))
	assert.Equal(t, whatif.DoesNotFit, answer.Verdict)
	assert.Equal(t, []string{"b", "c", "e"}, names(answer.Unplaced))
	require.Len(t, answer.Plans, 2)
	assert.Equal(t, []string{"a", "d"}, []string{answer.Plans[0].Pod.Name, answer.Plans[1].Pod.Name})

	urgent := user("urgent", "two")
	urgent.Spec.Priority = ptr.To(int32(5))
	answer = fit(t, s, user("a", "two"), urgent)
	assert.Equal(t, []string{"a"}, names(answer.Unplaced))
	assert.Equal(t, "urgent", answer.Plans[0].Pod.Name)

	// One without a place is like another one only if both ask for the same.
	pinned := user("pinned", "two")
	pinned.Spec.NodeSelector = map[string]string{"no": "node"}
	answer = fit(t, s, pinned, user("after", "two"))
	assert.Equal(t, []string{"pinned"}, names(answer.Unplaced))
}

func TestWithAndWithout(t *testing.T) {
	o := cluster(1, 2)
	holding(&o, "holder", "node-0000", "gpu-0")
	s := whatif.New(o, whatif.Options{})
	require.Equal(t, whatif.DoesNotFit, fit(t, s, user("a", "two")).Verdict)

	for name, gone := range map[string]whatif.Removal{
		"pod":   {Pods: []string{"default/holder"}},
		"claim": {Claims: []string{"default/holder"}},
	} {
		t.Run("without "+name, func(t *testing.T) {
			without, err := s.Without(gone)
			require.NoError(t, err)
			assert.Equal(t, whatif.Fits, fit(t, without, user("a", "two")).Verdict)
			assert.Equal(t, whatif.DoesNotFit, fit(t, s, user("a", "two")).Verdict, "the world before")
		})
	}
	without, err := s.Without(whatif.Removal{Nodes: []string{"node-0000"}})
	require.NoError(t, err)
	assert.Equal(t, whatif.DoesNotFit, fit(t, without, user("b", "one")).Verdict)
	_, err = s.Without(whatif.Removal{Nodes: []string{"node-7"}})
	require.ErrorContains(t, err, "there is no node node-7")

	bought := cluster(2, 4)
	with := s.With(whatif.Objects{Nodes: bought.Nodes[1:], Slices: bought.Slices[1:]})
	answer := fit(t, with, user("a", "two"), user("b", "two"), user("c", "one"))
	assert.Equal(t, whatif.Fits, answer.Verdict)
	assert.Equal(t, []string{"node-0001", "node-0001", "node-0000"}, nodesOf(answer))
}

func nodesOf(answer *whatif.Answer) []string {
	var nodes []string
	for i := range answer.Plans {
		nodes = append(nodes, answer.Plans[i].Node)
	}
	return nodes
}

func TestExplain(t *testing.T) {
	o := cluster(3, 2)
	holding(&o, "holder-0", "node-0000", "gpu-0", "gpu-1")
	holding(&o, "holder-1", "node-0001", "gpu-1")
	o.Nodes[2].Spec.Unschedulable = true
	o.Pods[1].Spec.Priority = ptr.To(int32(-1))
	s := whatif.New(o, whatif.Options{})
	e, err := s.Explain(t.Context(), user("a", "two"))
	require.NoError(t, err)
	assert.Empty(t, e.Fits)
	require.NotEmpty(t, e.Nearest)
	assert.Equal(t, "node-0001", e.Nearest[0].Node)
	assert.Equal(t, []string{"one more free device of class gpu.example.com for request gpu"}, e.Nearest[0].Lacking)

	victims, found, err := s.PossibleVictims(t.Context(), user("a", "two"), "node-0001")
	require.NoError(t, err)
	require.True(t, found)
	require.Len(t, victims, 1)
	assert.Equal(t, "holder-1", victims[0].Name)
	_, found, err = s.PossibleVictims(t.Context(), user("a", "two"), "node-0000")
	require.NoError(t, err)
	assert.False(t, found, "of the same priority")
}
