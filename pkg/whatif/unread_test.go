package whatif_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestUnread: what could not be read never becomes a "no".
func TestUnread(t *testing.T) {
	forbidden := func(resource string) whatif.Missing { return whatif.Missing{Resource: resource, Forbidden: true} }
	uses := func(edits ...func(*v1.Pod)) *v1.Pod { return builder.Pod("asks", edits...) }
	one := builder.Using(builder.FromTemplate("one")...)
	for name, test := range map[string]struct {
		missing whatif.Missing
		pod     *v1.Pod
		empty   func(*whatif.Objects)
		want    string
	}{
		"classes": {forbidden("deviceclasses.resource.k8s.io"), uses(one), func(o *whatif.Objects) { o.Classes = nil },
			"whether device class gpu.example.com exists is not known: deviceclasses may not be read"},
		"class of an extended resource": {forbidden("deviceclasses.resource.k8s.io"), uses(builder.Container("main", "example.com/gpu", "1")),
			func(o *whatif.Objects) { o.Classes = nil },
			"whether a device class stands for example.com/gpu is not known: deviceclasses may not be read"},
		"templates": {forbidden("resourceclaimtemplates.resource.k8s.io"), uses(one), func(o *whatif.Objects) { o.Templates = nil },
			"whether claim template one in namespace default exists is not known: resourceclaimtemplates may not be read"},
		"claims": {forbidden("resourceclaims.resource.k8s.io"), uses(builder.Using(builder.Uses("mine")...)), func(o *whatif.Objects) { o.Claims = nil },
			"whether claim mine in namespace default exists is not known: resourceclaims may not be read"},
		"nodes": {forbidden("nodes"), uses(one), func(o *whatif.Objects) { o.Nodes = nil },
			"which nodes there are is not known: nodes may not be read"},
		"slices": {forbidden("resourceslices.resource.k8s.io"), uses(one), func(o *whatif.Objects) { o.Slices = nil },
			"which devices there are is not known: resourceslices may not be read"},
		"an error of the server": {whatif.Missing{Resource: "nodes", Why: "timeout"}, uses(one), func(o *whatif.Objects) { o.Nodes = nil },
			"which nodes there are is not known: nodes could not be read (timeout)"},
	} {
		t.Run(name, func(t *testing.T) {
			o := cluster(1, 1)
			test.empty(&o)
			unmarked, err := whatif.New(o, whatif.Options{}).Explain(t.Context(), test.pod)
			require.NoError(t, err)
			require.Empty(t, unmarked.NotKnown, "a list that was read and is empty says no")
			o.Missing = []whatif.Missing{test.missing}
			s := whatif.New(o, whatif.Options{})
			e, err := s.Explain(t.Context(), test.pod)
			require.NoError(t, err)
			assert.Equal(t, test.want, e.NotKnown)
			assert.Empty(t, e.Problem)
			assert.Empty(t, e.Groups)
			assert.Equal(t, whatif.CannotTell, fit(t, s, test.pod).Verdict)
		})
	}
}

// TestUnreadElsewhere: what is in the namespace that may be read is known, and what looks free may be taken.
func TestUnreadElsewhere(t *testing.T) {
	o := cluster(1, 1)
	o.Missing = []whatif.Missing{{Resource: "resourceclaims.resource.k8s.io", Forbidden: true, Namespace: builder.Namespace}}
	s := whatif.New(o, whatif.Options{})
	e, err := s.Explain(t.Context(), builder.Pod("asks", builder.Using(builder.Uses("mine")...)))
	require.NoError(t, err)
	assert.Empty(t, e.NotKnown)
	assert.Contains(t, e.Problem, "claim mine does not exist in namespace default")
	e, err = s.Explain(t.Context(), user("a", "one"))
	require.NoError(t, err)
	assert.Len(t, e.Fits, 1)
	assert.Equal(t, []string{"resourceclaims may not be read outside of namespace default"}, e.Doubts)
}

// TestNumbersBesidesDevices: of several nodes it is said how much the one has that has most.
func TestNumbersBesidesDevices(t *testing.T) {
	o := cluster(3, 1)
	o.Nodes[1].Status.Allocatable = builder.Resources("cpu", "12", "memory", "64Gi", "pods", "20")
	pod := user("a", "one")
	builder.Container("main", "cpu", "4000")(pod)
	e, err := whatif.New(o, whatif.Options{}).Explain(t.Context(), pod)
	require.NoError(t, err)
	require.Len(t, e.Groups, 1)
	assert.Equal(t, "too little cpu is left: 4000 asked, 12 of 12 free on "+o.Nodes[1].Name+", which has most", e.Groups[0].Reason)
}

// TestAllocatedElsewhere: a claim that ties a pod to a node says to which, and who has it.
func TestAllocatedElsewhere(t *testing.T) {
	o := cluster(2, 1)
	claim := builder.Claim("mine", builder.Request("gpu", builder.Driver)).Allocated(o.Nodes[0].Name, "gpu-0")
	claim.Status.Allocation.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{o.Nodes[0].Name}}},
	}}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "other", UID: "uid-other"}}
	o.Claims = append(o.Claims, claim)
	e, err := whatif.New(o, whatif.Options{}).Explain(t.Context(), builder.Pod("asks", builder.Using(builder.Uses("mine")...)))
	require.NoError(t, err)
	require.Len(t, e.Groups, 1)
	assert.Equal(t, "claim mine is allocated with devices that the node does not reach (it has gpu.example.com/"+o.Nodes[0].Name+
		"/gpu-0; for node "+o.Nodes[0].Name+"; reserved for pod other)", e.Groups[0].Reason)
}
