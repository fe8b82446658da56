package whatif_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// Pods that share a claim go where its devices are.
func TestSharedClaim(t *testing.T) {
	o := cluster(3, 1)
	o.Claims = append(o.Claims, builder.Claim("shared", builder.Request("gpu", builder.Driver)).Obj())
	uses := builder.Using(builder.Uses("shared")...)
	s := whatif.New(o, whatif.Options{Seed: 3})
	answer := fit(t, s, builder.Pod("a", uses), builder.Pod("b", uses), builder.Pod("c", uses))
	require.Equal(t, whatif.Fits, answer.Verdict)
	nodes := nodesOf(answer)
	assert.Equal(t, []string{nodes[0], nodes[0], nodes[0]}, nodes)
	assert.Len(t, answer.After.Claim("default", "shared").Status.ReservedFor, 3)

	// It is free when the last one is gone.
	two, err := answer.After.Without(whatif.Removal{Pods: []string{"default/a", "default/b"}})
	require.NoError(t, err)
	assert.NotNil(t, two.Claim("default", "shared").Status.Allocation)
	none, err := two.Without(whatif.Removal{Pods: []string{"default/c"}})
	require.NoError(t, err)
	assert.Nil(t, none.Claim("default", "shared").Status.Allocation)
	assert.Equal(t, whatif.Fits, fit(t, none, user("x", "one"), user("y", "one"), user("z", "one")).Verdict)
}

// What is no device matters as well.
func TestBesidesDevices(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1.Node)
		pod    func(*v1.Pod)
		want   string
	}{
		"cordoned": {change: func(n *v1.Node) { n.Spec.Unschedulable = true }, want: "the node is cordoned (spec.unschedulable)"},
		"tainted": {
			change: func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "gpu", Effect: v1.TaintEffectNoSchedule}} },
			want:   "the node has taint gpu:NoSchedule, which the pod does not tolerate",
		},
		"other label": {
			pod:  func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "a"} },
			want: "the node does not match the pod's node selector or affinity",
		},
		"CPU":       {pod: builder.Container("main", "cpu", "9"), want: "too little cpu is left: 9 asked, 8 of 8 free"},
		"hugepages": {pod: builder.Container("main", "hugepages-2Mi", "4Mi"), want: "too little hugepages-2Mi is left: 4Mi asked, 0 of 0 free"},
		"pods":      {change: func(n *v1.Node) { n.Status.Allocatable["pods"] = resource.MustParse("0") }, want: "too little pods is left: 1 asked, 0 of 0 free"},
	} {
		t.Run(name, func(t *testing.T) {
			o := cluster(1, 1)
			if test.change != nil {
				test.change(o.Nodes[0])
			}
			pod := user("a", "one")
			if test.pod != nil {
				test.pod(pod)
			}
			s := whatif.New(o, whatif.Options{})
			assert.Equal(t, whatif.DoesNotFit, fit(t, s, pod).Verdict)
			e, err := s.Explain(t.Context(), pod)
			require.NoError(t, err)
			require.Len(t, e.Groups, 1)
			assert.Equal(t, test.want, e.Groups[0].Reason)
			assert.Equal(t, whatif.Fits, fit(t, whatif.New(cluster(1, 1), whatif.Options{}), user("a", "one")).Verdict)
		})
	}
}

// Devices stand for extended resources where no device plugin offers these (KEP-5004).
func TestExtendedResource(t *testing.T) {
	o := cluster(2, 2)
	o.Classes[0].Spec.ExtendedResourceName = ptr.To("example.com/gpu")
	o.Nodes[1].Status.Allocatable["example.com/gpu"] = resource.MustParse("3")
	asks := func(name string) *v1.Pod { return builder.Pod(name, builder.Container("main", "example.com/gpu", "2")) }
	answer := fit(t, whatif.New(o, whatif.Options{}), asks("a"), asks("b"), asks("c"))
	assert.Equal(t, whatif.DoesNotFit, answer.Verdict)
	assert.Equal(t, []string{"node-0000", "node-0001"}, nodesOf(answer), "two by devices, two of three by device plugin")
	assert.Len(t, answer.Plans[0].Claims, 1)
	assert.Empty(t, answer.Plans[1].Claims)
}

// What is wrong with the pod itself is said once, and not for each node.
func TestProblem(t *testing.T) {
	s := whatif.New(cluster(2, 1), whatif.Options{})
	for name, test := range map[string]struct {
		pod  *v1.Pod
		want string
	}{
		"no claim":    {builder.Pod("a", builder.Using(builder.Uses("lost")...)), "claim lost does not exist in namespace default; create it first"},
		"no template": {user("a", "lost"), "claim template lost does not exist in namespace default; create it first"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, whatif.DoesNotFit, fit(t, s, test.pod).Verdict)
			e, err := s.Explain(t.Context(), test.pod)
			require.NoError(t, err)
			assert.Equal(t, test.want, e.Problem)
		})
	}
	missingClass := s.With(whatif.Objects{Claims: []*resourceapi.ResourceClaim{builder.Claim("odd", builder.Request("gpu", "none")).Obj()}})
	e, err := missingClass.Explain(t.Context(), builder.Pod("a", builder.Using(builder.Uses("odd")...)))
	require.NoError(t, err)
	assert.Contains(t, e.Problem, "none")
}

// What could not be read makes all answers uncertain.
func TestMissing(t *testing.T) {
	o := cluster(1, 1)
	o.Missing = []whatif.Missing{{Resource: "resourceclaims.resource.k8s.io", Why: "the right is missing"}}
	answer := fit(t, whatif.New(o, whatif.Options{}), user("a", "one"))
	assert.Equal(t, whatif.CannotTell, answer.Verdict)
	assert.Equal(t, []string{"resourceclaims.resource.k8s.io could not be read: the right is missing"}, answer.Doubts)
}

// A search that gives up is no "no".
func TestGaveUp(t *testing.T) {
	o := whatif.Objects{
		Nodes:   []*v1.Node{node("n")},
		Classes: []*resourceapi.DeviceClass{builder.DriverClass(builder.Driver)},
		Claims:  []*resourceapi.ResourceClaim{builder.Claim("hard", builder.Request("gpu", builder.Driver).Count(16)).Obj()},
		Slices:  impossible(),
	}
	answer := fit(t, whatif.New(o, whatif.Options{}), builder.Pod("a", builder.Using(builder.Uses("hard")...)))
	assert.Equal(t, whatif.CannotTell, answer.Verdict)
	require.Len(t, answer.Doubts, 1)
	assert.Contains(t, answer.Doubts[0], "gave up on 1 nodes")
}

// impossible returns slices for a request for 16 devices. Together the devices would have to
// consume an odd amount of a counter, but each consumes an even amount: there are more combinations
// than a search could try.
func impossible() []*resourceapi.ResourceSlice {
	const heaviest, total = 1 << 20, 16*64 + 1
	slice := builder.Slice("devices").InPool("p", 1, 2).OnNode("n")
	for i := range 64 {
		slice.Devices(builder.Device(fmt.Sprintf("gpu-%02d", i)).Attr("id", i).
			Consumes("set", "weight", fmt.Sprint(2*i), "lightness", fmt.Sprint(heaviest-2*i)))
	}
	counters := builder.Slice("counters").InPool("p", 1, 2).OnNode("n").
		Counters("set", "weight", fmt.Sprint(total), "lightness", fmt.Sprint(16*heaviest-total))
	return []*resourceapi.ResourceSlice{counters.Obj(), slice.Obj()}
}

// Slices from a file have no names; none of them is lost.
func TestSlicesWithoutNames(t *testing.T) {
	o := cluster(2, 1)
	for _, slice := range o.Slices {
		slice.Name = ""
	}
	s := whatif.New(o, whatif.Options{})
	assert.Equal(t, whatif.Fits, fit(t, s, user("a", "one"), user("b", "one")).Verdict)

	part := func(i int64, device string) *resourceapi.ResourceSlice {
		slice := builder.Slice("").InPool("bought", 1, 2).OnNode("new").Devices(builder.Device(device)).Obj()
		slice.Name = ""
		return slice
	}
	s = s.With(whatif.Objects{Nodes: []*v1.Node{node("new")}, Slices: []*resourceapi.ResourceSlice{part(0, "x"), part(1, "y")}})
	assert.Equal(t, whatif.Fits, fit(t, s, user("c", "two"), user("a", "one"), user("b", "one")).Verdict)
}

// A class that is replaced is not taken for the one before.
func TestClassReplaced(t *testing.T) {
	s := whatif.New(cluster(1, 1), whatif.Options{})
	require.Equal(t, whatif.Fits, fit(t, s, user("a", "one")).Verdict)
	class := builder.Class(builder.Driver, "device.driver == 'another.example.com'")
	class.UID, class.ResourceVersion = "", ""
	s = s.With(whatif.Objects{Classes: []*resourceapi.DeviceClass{class}})
	assert.Equal(t, whatif.DoesNotFit, fit(t, s, user("a", "one")).Verdict)
}

// Objects from a file have no defaults.
func TestDefaults(t *testing.T) {
	o := cluster(1, 3)
	for name, request := range map[string]resourceapi.DeviceRequest{
		"exactly":   {Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: builder.Driver}},
		"available": {Name: "gpu", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "sub", DeviceClassName: builder.Driver}}},
	} {
		o.Templates = append(o.Templates, &resourceapi.ResourceClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
			Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{request}}}},
		})
	}
	s := whatif.New(o, whatif.Options{})
	a, b := user("a", "exactly"), user("b", "available")
	a.Namespace, b.Namespace = "", ""
	answer := fit(t, s, a, b)
	require.Equal(t, whatif.Fits, answer.Verdict)
	assert.Len(t, answer.Plans[0].Claims[0].Status.Allocation.Devices.Results, 1)

	limited := user("c", "exactly", builder.Container("main"))
	limited.Spec.Containers[0].Resources.Limits = builder.Resources("cpu", "9")
	assert.Equal(t, whatif.DoesNotFit, fit(t, s, limited).Verdict)
	assert.Empty(t, limited.Spec.Containers[0].Resources.Requests, "the pod is the caller's")
}
