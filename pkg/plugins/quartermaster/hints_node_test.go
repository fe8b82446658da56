package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
)

func TestClassHints(t *testing.T) {
	t.Parallel()
	of := func(class string) *resourceapi.ResourceClaim {
		return builder.Claim("c", builder.Request("r", class)).Obj()
	}
	allocated := builder.Claim("c", builder.Request("r", "gpu")).Allocated("n1", "gpu-0")
	class, labelledClass := builder.Class("gpu"), builder.Class("gpu")
	labelledClass.Labels = map[string]string{"changed": "yes"}
	tests := map[string]struct {
		claim         *resourceapi.ResourceClaim
		pod           *v1.Pod
		before, after *resourceapi.DeviceClass
		want          bool
	}{
		"created":           {claim: of("gpu"), after: class, want: true},
		"another created":   {claim: of("nic"), after: class},
		"selects otherwise": {claim: of("gpu"), before: builder.Class("gpu", "false"), after: class, want: true},
		"another changed":   {claim: of("nic"), before: builder.Class("gpu", "false"), after: class},
		"only labels":       {claim: of("gpu"), before: builder.Class("gpu"), after: labelledClass},
		"in an alternative": {
			claim: builder.Claim("c", builder.FirstAvailable("r", builder.Request("a", "nic"), builder.Request("b", "gpu"))).Obj(),
			after: class, want: true,
		},
		"allocated already":  {claim: allocated, after: class},
		"claim missing":      {claim: of("gpu"), pod: newPod("p", uses("c"), uses("d")), after: class},
		"pod without claims": {claim: of("gpu"), pod: newPod("p"), after: class},
		"deleted":            {claim: of("gpu"), before: class},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			beforeEvents(t, func(t *testing.T, f *fixture) {
				f.create(builder.Node("n1"))
				slice := gpuSlice(40).Obj()
				f.arrive(test.claim, slice)
				f.pl.state.RefreshSlice(slice.Name)
				e := event{resource: fwk.DeviceClass, action: fwk.Update, oldObj: object(test.before), newObj: object(test.after)}
				if test.before == nil {
					e.action = fwk.Add
				}
				if test.after == nil {
					e.action = fwk.Delete
				} else {
					f.arrive(test.after)
				}
				pod := test.pod
				if pod == nil {
					pod = newPod("p", uses("c"))
				}
				require.Equal(t, test.want, f.wakes(e, pod))
			})
		})
	}
}

func TestNodeHints(t *testing.T) {
	t.Parallel()
	unallocated := gpus("c", 1).Obj()
	onN2 := with(gpus("c", 1).Allocated("n2", "gpu-0"), onNode("n2"))
	onLabel := gpus("c", 1).Allocated("zone", "gpu-0")
	onLabel.Status.Allocation.NodeSelector = builder.NodeSelector("zone", "a")
	offers := builder.Node("n1")
	offers.Status.Allocatable = v1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	bigger := builder.Node("n1")
	bigger.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("64")}

	const added, labels, allocatable = fwk.Add, fwk.UpdateNodeLabel, fwk.UpdateNodeAllocatable
	tests := map[string]struct {
		claim         *resourceapi.ResourceClaim
		pod           *v1.Pod
		slice         *resourceapi.ResourceSlice
		action        fwk.ActionType
		before, after *v1.Node
		want          bool
	}{
		"added with devices":               {claim: unallocated, slice: gpuSlice(40).Obj(), action: added, after: builder.Node("n1"), want: true},
		"added without devices":            {claim: unallocated, slice: gpuSlice(40).Obj(), action: added, after: builder.Node("n2")},
		"added with other devices":         {claim: unallocated, slice: builder.NodeSlice("n1", builder.Devices("nic-0")...).OfDriver("nic.example.com").Obj(), action: added, after: builder.Node("n1")},
		"added with devices for all":       {claim: unallocated, slice: builder.Slice("s").OnAllNodes().Devices(builder.Devices("gpu-0")...).Obj(), action: added, after: builder.Node("n2"), want: true},
		"gets the label of a slice":        {claim: unallocated, slice: builder.Slice("s").OnLabeled("zone", "a").Devices(builder.Devices("gpu-0")...).Obj(), action: labels, before: builder.Node("n1"), after: builder.Node("n1", "zone", "a"), want: true},
		"loses the label of a slice":       {claim: unallocated, slice: builder.Slice("s").OnLabeled("zone", "a").Devices(builder.Devices("gpu-0")...).Obj(), action: labels, before: builder.Node("n1", "zone", "a"), after: builder.Node("n1")},
		"gets the label of an allocation":  {claim: onLabel, slice: gpuSlice(40).Obj(), action: labels, before: builder.Node("n1"), after: builder.Node("n1", "zone", "a"), want: true},
		"loses the label of an allocation": {claim: onLabel, slice: gpuSlice(40).Obj(), action: labels, before: builder.Node("n1", "zone", "a"), after: builder.Node("n1")},
		"added where the claim is":         {claim: onN2, slice: gpuSlice(40).Obj(), action: added, after: builder.Node("n2"), want: true},
		"added where the claim is not":     {claim: onN2, slice: gpuSlice(40).Obj(), action: added, after: builder.Node("n1")},
		"claim is full":                    {claim: with(onN2, reservedFor(users(resourceapi.ResourceClaimReservedForMaxSize)...)), slice: gpuSlice(40).Obj(), action: added, after: builder.Node("n2")},
		"more CPUs":                        {claim: unallocated, slice: gpuSlice(40).Obj(), action: allocatable, before: builder.Node("n1"), after: bigger},
		"device plugin appears":            {claim: unallocated, pod: newPod("p", requests("example.com/gpu")), slice: gpuSlice(40).Obj(), action: allocatable, before: builder.Node("n1"), after: offers, want: true},
		"node with device plugin":          {claim: unallocated, pod: newPod("p", requests("example.com/gpu")), slice: gpuSlice(40).Obj(), action: added, after: offers, want: true},
		"claim missing":                    {claim: unallocated, pod: newPod("p", uses("c"), uses("d")), slice: gpuSlice(40).Obj(), action: added, after: builder.Node("n1")},
		"taint of the node":                {claim: unallocated, slice: gpuSlice(40).Obj(), action: fwk.UpdateNodeTaint, before: builder.Node("n1"), after: builder.Node("n1")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			beforeEvents(t, func(t *testing.T, f *fixture) {
				f.arrive(builder.Class("gpu", `device.driver == "gpu.example.com"`), extendedClass(), test.claim, test.slice)
				f.pl.state.RefreshSlice(test.slice.Name)
				pod := test.pod
				if pod == nil {
					pod = newPod("p", uses("c"))
				}
				e := event{resource: fwk.Node, action: test.action, oldObj: object(test.before), newObj: object(test.after)}
				require.Equal(t, test.want, f.wakes(e, pod))
			})
		})
	}
}
