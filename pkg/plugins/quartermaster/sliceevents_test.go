package quartermaster

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/queue"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// sliceCase is a slice event and a pod that waits for claim c.
type sliceCase struct {
	claim *resourceapi.ResourceClaim
	pod   *v1.Pod // newPod("p", uses("c")) if nil
	// others are slices that exist.
	others        []*resourceapi.ResourceSlice
	before, after *resourceapi.ResourceSlice // nil if created or deleted
	tombstone     bool
	want, later   bool // later: after the pod's pause
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
			before: builder.Slice("half").InPool("half", 1, 2).OnNode("n1").Devices(builder.Devices("gpu-5")...).Obj(), want: true, later: true, fits: true,
		},
		"incomplete pool ends, some are wanted": {
			claim: c, others: []*resourceapi.ResourceSlice{small},
			before: builder.Slice("half").InPool("half", 1, 2).OnNode("n1").Devices(builder.Devices("gpu-5")...).Obj(),
		},
		"pool of others complete, all are wanted": {
			claim:  builder.Claim("c", builder.Request("r", "gpu").All()).Obj(),
			others: []*resourceapi.ResourceSlice{small, builder.Slice("a").InPool("nics", 1, 2).OfDriver("nic.example.com").OnNode("n1").Devices(builder.Devices("nic-0")...).Obj()},
			after:  builder.Slice("b").InPool("nics", 1, 2).OfDriver("nic.example.com").OnNode("n1").Devices(builder.Devices("nic-1")...).Obj(), want: true, later: true, fits: true,
		},
		"class missing, all are wanted": {claim: builder.Claim("c", builder.Request("r", "absent").All()).Obj(), after: small},
		"matching device withdrawn, all are wanted": {
			claim:  builder.Claim("c", builder.Request("r", "gpu").All()).Obj(),
			others: []*resourceapi.ResourceSlice{small},
			before: noSchedule(builder.Slice("more").InPool("more", 1, 1).OnNode("n1").Devices(builder.Devices("gpu-5")...).Obj()), want: true, later: true, fits: true,
		},
		"selector does not fail any more": {
			claim: builder.Claim("c", builder.Request("r", "gpu").Count(2).Where(`device.attributes["gpu.example.com"].mem == 80`)).Obj(), others: []*resourceapi.ResourceSlice{big},
			before: builder.Slice("a").InPool("a", 1, 1).OnNode("n1").Devices(builder.Devices("gpu-5")...).Obj(),
			after:  builder.Slice("a").InPool("a", 1, 1).OnNode("n1").Devices(builder.Device("gpu-5").Attr("mem", 80)).Obj(), want: true, fits: true,
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

// rejected tries a pod and records a rejection, whether or not it would fit.
func (f *fixture) rejected(pod *v1.Pod) {
	if a, status := f.begin(pod); status.IsSuccess() {
		a.filter()
	}
	if entry := f.pl.waiting.Get(pod.UID); entry != nil {
		f.pl.waker.Reject(entry)
	}
	f.forget()
}

// sliceIsThere adds a slice that existed before the event.
func (f *fixture) sliceIsThere(slice *resourceapi.ResourceSlice) {
	f.arrive(slice)
	f.pl.state.RefreshSlice(slice.Name)
}

// sliceChanges brings a slice into its last state in the informer's store only, before any handler runs.
func (f *fixture) sliceChanges(before, after *resourceapi.ResourceSlice) {
	if after == nil {
		f.leave(before)
	} else {
		f.arrive(after)
	}
}

// TestSliceEvents also checks that the inventory shows the change when a pod is woken.
func TestSliceEvents(t *testing.T) {
	t.Parallel()
	for name, test := range sliceCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			beforeEvents(t, func(t *testing.T, f *fixture) {
				f.create(builder.Node("n1"))
				f.arrive(builder.Class("gpu", `device.driver == "gpu.example.com"`), test.claim)
				for _, slice := range test.others {
					f.sliceIsThere(slice)
				}
				if test.before != nil {
					f.sliceIsThere(test.before)
				}
				pod := test.pod
				if pod == nil {
					pod = newPod("p", uses("c"))
				}
				f.arrive(pod)
				f.rejected(pod)
				f.sliceChanges(test.before, test.after)
				tell(t, f.pl.state.sliceChanged, test.before, test.after, test.tombstone)
				require.Equal(t, test.want && !test.later, len(f.names()) > 0)
				time.Sleep(queue.LongestPause)
				synctest.Wait()
				require.Equal(t, test.want, len(f.names()) > 0)
				require.Equal(t, test.fits, test.want && f.fits(pod), "the pod fits now")
			})
		})
	}
}

// TestSliceUnseen: the informer has a slice, and the scheduling queue may have seen its event, but an attempt runs
// before or while the plugin's own handler does.
func TestSliceUnseen(t *testing.T) {
	t.Parallel()
	slice, pod := gpuSlice(40).Obj(), newPod("p", uses("c"))
	for name, meanwhile := range map[string]bool{"attempt over": false, "attempt under way": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			beforeEvents(t, func(t *testing.T, f *fixture) {
				f.create(builder.Node("n1"))
				f.arrive(builder.Class("gpu"), gpus("c", 1).Obj(), pod, slice)
				a := f.mustBegin(pod)
				if !meanwhile {
					require.Empty(t, a.filter().feasible)
					require.Empty(t, f.names())
				}
				tell(t, f.pl.state.sliceChanged, nil, slice, false)
				if meanwhile {
					require.Empty(t, f.names())
					f.pl.waker.Reject(f.pl.waiting.Get(pod.UID))
				}
				require.Equal(t, []string{"default/p"}, f.names())
				require.True(t, f.fits(pod))
			})
		})
	}
}

// TestFailingDeviceGoesMeanwhile: a device on which a selector fails goes while the pod is
// being tried, before that is known to keep it from a node.
func TestFailingDeviceGoesMeanwhile(t *testing.T) {
	t.Parallel()
	beforeEvents(t, func(t *testing.T, f *fixture) {
		pod := newPod("p", uses("c"))
		failing := builder.Slice("a").InPool("a", 1, 1).OnNode("n1").Devices(builder.Devices("gpu-5")...).Obj()
		f.create(builder.Node("n1"))
		f.arrive(builder.Class("gpu"), builder.Claim("c", builder.Request("r", "gpu").Count(2).Where(`device.attributes["gpu.example.com"].mem == 80`)).Obj(), pod)
		f.sliceIsThere(gpuSlice(80).Obj())
		f.sliceIsThere(failing)
		a := f.mustBegin(pod)
		f.leave(failing)
		tell(t, f.pl.state.sliceChanged, failing, nil, false)
		f.arrive(failing) // Filter has looked before that.
		f.pl.state.RefreshSlice(failing.Name)
		require.Empty(t, a.filter().feasible)
		time.Sleep(queue.LongestPause)
		synctest.Wait()
		require.Equal(t, []string{"default/p"}, f.names())
	})
}

// TestSliceEventsForSeveralPods: only those are woken who could use the devices, and only
// once until they are tried again.
func TestSliceEventsForSeveralPods(t *testing.T) {
	t.Parallel()
	beforeEvents(t, func(t *testing.T, f *fixture) {
		wanting, other := newPod("wanting", uses("c")), newPod("other", uses("none"))
		f.arrive(builder.Class("gpu", `device.driver == "gpu.example.com"`), gpus("c", 1).Obj(),
			builder.Claim("none", builder.Request("r", "absent")).Obj(), wanting, other)
		happen := func(before, after *resourceapi.ResourceSlice) []string {
			f.forget()
			f.sliceChanges(before, after)
			tell(t, f.pl.state.sliceChanged, before, after, false)
			return f.names()
		}
		first, second, relabelled := gpuSlice(40).Obj(), gpuSlice(80).Obj(), gpuSlice(80).Modify(labelledSlice).Obj()
		f.rejected(wanting)
		f.rejected(other)
		require.Equal(t, []string{"default/wanting"}, happen(nil, first))
		require.Empty(t, happen(first, second), "is active already")
		time.Sleep(queue.LongestPause)
		synctest.Wait()
		require.Equal(t, []string{"default/wanting"}, f.names(), "another plugin kept it out of the queue")
		f.rejected(wanting)
		require.Empty(t, happen(second, relabelled))
		require.Equal(t, []string{"default/wanting"}, happen(relabelled, first))
		f.rejected(wanting)
		require.True(t, f.pl.PreEnqueue(f.ctx, wanting).IsSuccess(), "in the queue of those that back off")
		require.Equal(t, []string{"default/wanting"}, happen(first, second))
		f.rejected(wanting)
		require.Empty(t, happen(second, nil))
	})
}

// TestTaintRuleEvents: the change or end of a taint rule wakes the pods that it may have
// kept from a device.
func TestTaintRuleEvents(t *testing.T) {
	t.Parallel()
	rule := func(driver, pool, device string) *resourceapi.DeviceTaintRule {
		name := func(name string) *string {
			if name == "" {
				return nil
			}
			return &name
		}
		rule := &resourceapi.DeviceTaintRule{}
		rule.Name = "rule"
		rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: name(driver), Pool: name(pool), Device: name(device)}
		rule.Spec.Taint = resourceapi.DeviceTaint{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}
		return rule
	}
	harmless := rule(builder.Driver, "", "")
	harmless.Spec.Taint.Effect = resourceapi.DeviceTaintEffectNone
	labelled := rule(builder.Driver, "", "")
	labelled.Labels = map[string]string{"changed": "yes"}
	tests := map[string]struct {
		before, after *resourceapi.DeviceTaintRule
		fitted, want  bool
	}{
		"rule for a driver ends":             {before: rule(builder.Driver, "", ""), want: true},
		"rule for a pool ends":               {before: rule(builder.Driver, "n1", ""), want: true},
		"rule for a device ends":             {before: rule(builder.Driver, "n1", "gpu-0"), want: true},
		"rule for an unknown pool ends":      {before: rule(builder.Driver, "n2", ""), fitted: true},
		"rule for another device ends":       {before: rule(builder.Driver, "n1", "gpu-1"), fitted: true},
		"rule without selector ends":         {before: &resourceapi.DeviceTaintRule{}, fitted: true, want: true},
		"rule becomes harmless":              {before: rule(builder.Driver, "", ""), after: harmless, want: true},
		"rule is about others from now":      {before: rule(builder.Driver, "n1", ""), after: rule(builder.Driver, "n2", ""), want: true},
		"rule changes in nothing but labels": {before: rule(builder.Driver, "", ""), after: labelled},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			beforeEvents(t, func(t *testing.T, f *fixture) {
				pod := newPod("p", uses("c"))
				f.create(builder.Node("n1"))
				f.arrive(builder.Class("gpu"), gpus("c", 1).Obj(), pod, test.before)
				f.sliceIsThere(gpuSlice(40).Obj())
				f.pl.state.RefreshTaintRule(test.before.Name)
				require.Equal(t, test.fitted, f.fits(pod))
				f.rejected(pod)
				if test.after == nil {
					f.leave(test.before)
				} else {
					test.after.Name = test.before.Name
					f.arrive(test.after)
				}
				tell(t, f.pl.state.ruleChanged, test.before, test.after, false)
				require.Equal(t, test.want, len(f.names()) > 0)
				require.Equal(t, test.fitted || test.want, f.fits(pod))
			})
		})
	}
}

// TestFirstInQueueFirst: if not all can be woken at once, then those with the highest
// priority are, and of these the oldest.
func TestFirstInQueueFirst(t *testing.T) {
	t.Parallel()
	beforeEvents(t, func(t *testing.T, f *fixture) {
		const many = queue.WokenAtOnce + 50
		f.arrive(builder.Class("gpu"))
		var first []string
		for i := range many {
			name := fmt.Sprintf("p%03d", (i*7)%many)
			pod := newPod(name, uses("c-"+name), func(pod *v1.Pod) {
				pod.Spec.Priority = ptr.To(int32(i / 75))
				pod.CreationTimestamp = metav1.NewTime(time.Unix(int64(i), 0))
			})
			f.arrive(pod, gpus("c-"+name, 1).Obj())
			f.rejected(pod)
			if i >= 75 || i < queue.WokenAtOnce-(many-75) {
				first = append(first, "default/"+name)
			}
		}
		slice := gpuSlice(40).Obj()
		f.arrive(slice)
		tell(t, f.pl.state.sliceChanged, nil, slice, false)
		require.ElementsMatch(t, first, f.names())
	})
}
