package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/builder"
)

// sliceCase is a slice event and a pod that waits for claim c.
type sliceCase struct {
	claim *resourceapi.ResourceClaim
	pod   *v1.Pod // newPod("p", uses("c")) if nil
	// others are slices that exist.
	others        []*resourceapi.ResourceSlice
	before, after *resourceapi.ResourceSlice // nil if created or deleted
	tombstone     bool
	want          bool
	fits          bool // on the node, now that it is known
}

// gpuSlice is the slice of node n1 with one GPU that has so much memory.
func gpuSlice(mem int) *builder.SliceBuilder {
	return builder.NodeSlice("n1", builder.Device("gpu-0").Attr("mem", mem))
}

func noSchedule(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	slice = slice.DeepCopy()
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	return slice
}

func labelledSlice(slice *resourceapi.ResourceSlice) {
	slice.Labels = map[string]string{"changed": "yes"}
}

func sliceCases() map[string]sliceCase {
	c := gpus("c", 1).Obj()
	large := builder.Claim("c", builder.Request("r", "gpu").Where(`device.attributes["gpu.example.com"].mem == 80`)).Obj()
	small, big := gpuSlice(40).Obj(), gpuSlice(80).Obj()
	second := func(name string, generation int64) *resourceapi.ResourceSlice {
		return builder.Slice(name).InPool("n1", generation, 2).OnNode("n1").Devices(builder.Devices("gpu-" + name)...).Obj()
	}
	stray := builder.Slice("stray").InPool("n1", 1, 1).OnNode("n1").Devices(builder.Devices("gpu-9")...).Obj()
	other := builder.NodeSlice("n1", builder.Devices("nic-0")...).OfDriver("nic.example.com").Obj()
	return map[string]sliceCase{
		"first slice":                   {claim: c, after: small, want: true, fits: true},
		"slice of another driver":       {claim: c, after: other},
		"slice without fitting device":  {claim: large, after: small},
		"slice with fitting device":     {claim: large, after: big, want: true, fits: true},
		"unfinished pool, nothing fits": {claim: large, after: gpuSlice(40).InPool("n1", 1, 2).Obj()},
		"unfinished pool, would fit":    {claim: large, after: gpuSlice(80).InPool("n1", 1, 2).Obj(), want: true},
		"device becomes fitting":        {claim: large, before: small, after: big, want: true, fits: true},
		"device becomes unfitting":      {claim: large, before: big, after: small},
		"only labels":                   {claim: c, before: small, after: gpuSlice(40).Modify(labelledSlice).Obj()},
		"slice for another node":        {claim: c, after: builder.NodeSlice("n2", builder.Devices("gpu-0")...).Obj(), want: true},
		"driver removes its taint":      {claim: c, before: noSchedule(small), after: small, want: true, fits: true},
		"driver adds a taint":           {claim: c, before: small, after: noSchedule(small), want: true},
		"pool half there":               {claim: c, after: second("a", 1), want: true},
		"pool complete":                 {claim: c, others: []*resourceapi.ResourceSlice{second("a", 1)}, after: second("b", 1), want: true, fits: true},
		"pool complete by a deletion":   {claim: c, others: []*resourceapi.ResourceSlice{small}, before: stray, want: true, fits: true},
		"pool complete by its new size": {claim: c, before: builder.Slice("n1").InPool("n1", 1, 2).OnNode("n1").Devices(builder.Devices("gpu-0")...).Obj(), after: gpuSlice(40).InPool("n1", 1, 1).Obj(), want: true, fits: true},
		"last slice deleted":            {claim: c, before: small},
		"incomplete pool ends, all are wanted": {
			claim: builder.Claim("c", builder.Request("r", "gpu").All()).Obj(), others: []*resourceapi.ResourceSlice{small},
			before: builder.Slice("half").InPool("half", 1, 2).OnNode("n1").Devices(builder.Devices("gpu-5")...).Obj(), want: true, fits: true,
		},
		"incomplete pool ends, some are wanted": {
			claim: c, others: []*resourceapi.ResourceSlice{small},
			before: builder.Slice("half").InPool("half", 1, 2).OnNode("n1").Devices(builder.Devices("gpu-5")...).Obj(),
		},
		"last slice deleted, missed":     {claim: c, before: small, tombstone: true},
		"complete by missed deletion":    {claim: c, others: []*resourceapi.ResourceSlice{small}, before: stray, tombstone: true, want: true, fits: true},
		"moves to another pool":          {claim: c, before: other, after: small, want: true, fits: true},
		"leaves a pool that is complete": {claim: c, others: []*resourceapi.ResourceSlice{small}, before: stray, after: builder.Slice("stray").OfDriver("nic.example.com").OnNode("n1").Obj(), want: true, fits: true},
		"selector nobody can evaluate":   {claim: builder.Claim("c", builder.Request("r", "gpu").Where(`device.attributes["gpu.example.com"].none`)).Obj(), after: small, want: true},
		"class missing":                  {claim: builder.Claim("c", builder.Request("r", "absent")).Obj(), after: small},
		"needs no devices":               {claim: gpus("c", 1).Allocated("n9", "gpu-0"), after: small},
		"needs no devices, pool half":    {claim: gpus("c", 1).Allocated("n9", "gpu-0"), after: second("a", 1)},
		"claim missing":                  {claim: c, pod: newPod("p", uses("c"), uses("d")), after: small},
		"pod without claims":             {claim: c, pod: newPod("p"), after: small},
	}
}

// sliceEventOf brings the slice into its last state in the informer's store only.
func (f *fixture) sliceEventOf(before, after *resourceapi.ResourceSlice) event {
	e := event{resource: fwk.ResourceSlice, action: fwk.Update, oldObj: object(before), newObj: object(after)}
	if before != nil {
		f.arrive(before)
		f.pl.state.refreshSlice(before.Name)
	}
	switch {
	case after == nil:
		e.action = fwk.Delete
		f.leave(before)
	case before == nil:
		e.action = fwk.Add
		f.arrive(after)
	default:
		f.arrive(after)
	}
	return e
}

// TestSliceHints also checks that the inventory shows an event when the hint has
// said that it may help, although our own handler has not run.
func TestSliceHints(t *testing.T) {
	t.Parallel()
	for name, test := range sliceCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			beforeEvents(t, func(t *testing.T, f *fixture) {
				f.create(builder.Node("n1"))
				f.arrive(builder.Class("gpu", `device.driver == "gpu.example.com"`), test.claim)
				for _, slice := range test.others {
					f.arrive(slice)
					f.pl.state.refreshSlice(slice.Name)
				}
				pod := test.pod
				if pod == nil {
					pod = newPod("p", uses("c"))
				}
				e := f.sliceEventOf(test.before, test.after)
				if test.tombstone {
					e.oldObj = cache.DeletedFinalStateUnknown{Key: test.before.Name, Obj: test.before}
				}
				require.Equal(t, test.want, f.wakes(e, pod))
				require.Equal(t, test.fits, test.want && f.fits(pod), "the pod fits now")
			})
		})
	}
}

// TestSliceHintOfTaintRule: the scheduler reports a change of a rule as a change of
// the slices that it applies to.
func TestSliceHintOfTaintRule(t *testing.T) {
	t.Parallel()
	rule := &resourceapi.DeviceTaintRule{}
	rule.Name = "rule"
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: ptr.To(builder.Driver)}
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	slice := gpuSlice(40).Obj()
	pod := newPod("p", uses("c"))
	beforeEvents(t, func(t *testing.T, f *fixture) {
		f.create(builder.Node("n1"))
		f.arrive(builder.Class("gpu"), gpus("c", 1).Obj(), slice, rule)
		f.pl.state.refreshSlice(slice.Name)
		f.pl.state.refreshRules()
		require.False(t, f.fits(pod))

		f.leave(rule)
		e := event{resource: fwk.ResourceSlice, action: fwk.Update, oldObj: noSchedule(slice), newObj: slice}
		require.True(t, f.wakes(e, pod))
		require.True(t, f.fits(pod))

		f.arrive(rule)
		e = event{resource: fwk.ResourceSlice, action: fwk.Update, oldObj: slice, newObj: noSchedule(slice)}
		f.wakes(e, pod)
		require.False(t, f.fits(pod), "the new taint is known as well")
	})
}

// TestSliceHintsForSeveralPods: what was found out for the first pod is used for the
// others, but not for the next event, even if that is about the same slice.
func TestSliceHintsForSeveralPods(t *testing.T) {
	t.Parallel()
	beforeEvents(t, func(t *testing.T, f *fixture) {
		f.arrive(builder.Class("gpu", `device.driver == "gpu.example.com"`), gpus("c", 1).Obj(), builder.Claim("none", builder.Request("r", "absent")).Obj())
		wanting, other := newPod("wanting", uses("c")), newPod("other", uses("none"))
		first, relabelled, second := gpuSlice(40).Obj(), gpuSlice(40).Modify(labelledSlice).Obj(), gpuSlice(80).Obj()

		created := f.sliceEventOf(nil, first)
		require.False(t, f.wakes(created, other))
		require.True(t, f.wakes(created, wanting))
		labels := f.sliceEventOf(first, relabelled)
		require.False(t, f.wakes(labels, wanting))
		require.False(t, f.wakes(labels, wanting))
		changed := f.sliceEventOf(relabelled, second)
		require.True(t, f.wakes(changed, wanting))
		require.False(t, f.wakes(changed, other))
		require.True(t, f.wakes(changed, wanting))
		deleted := f.sliceEventOf(second, nil)
		require.False(t, f.wakes(deleted, wanting))
	})
}
