package whatif

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestDerived with what drivers and users can do besides: partitions, shares, admin access, pools of several slices and
// generations, taints and rules, nodes, classes, claims and pods that are replaced.
func TestDerivedRich(t *testing.T) {
	for seed := range worldCount(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := &richWorld{randomWorld{Rand: rand.New(rand.NewPCG(seed, 21))}}
			var o Objects
			o.Classes = []*resourceapi.DeviceClass{builder.DriverClass(builder.Driver), builder.DriverClass("nic.example.com")}
			o.Classes[0].UID, o.Classes[0].ResourceVersion = "class", "1"
			o.Classes[0].Spec.ExtendedResourceName = ptr.To("example.com/gpu")
			for range 1 + r.IntN(3) {
				r.addRichNode(&o)
			}
			o.Slices = append(o.Slices, r.networkSlice())
			s := New(o, Options{Seed: seed})
			for range 7 {
				s = r.richStep(t, s)
				r.richCompare(t, s, New(s.objects(), Options{Seed: seed}))
			}
		})
	}
}

type richWorld struct{ randomWorld }

func (r *richWorld) addRichNode(o *Objects) {
	name := r.name("node")
	node := builder.Node(name)
	node.Status.Allocatable = builder.Resources("cpu", "2", "memory", "1Gi", "pods", "5")
	if r.IntN(3) == 0 {
		node.Status.Allocatable["example.com/gpu"] = builder.Resources("x", fmt.Sprint(r.IntN(3)))["x"]
	}
	o.Nodes = append(o.Nodes, node)
	o.Slices = append(o.Slices, r.slicesOf(name, 1)...)
}

func (r *richWorld) slicesOf(node string, generation int64) []*resourceapi.ResourceSlice {
	switch r.IntN(4) {
	case 0: // Partitions.
		devices := builder.Slice("part-"+node).InPool(node, generation, 2).OnNode(node)
		for i := range 3 {
			devices.Devices(builder.Device(fmt.Sprintf("gpu-%d", i)).Consumes("set", "memory", fmt.Sprint(10*(1+r.IntN(3)))))
		}
		return []*resourceapi.ResourceSlice{
			builder.Slice("counters-"+node).InPool(node, generation, 2).OnNode(node).Counters("set", "memory", "40").Obj(), devices.Obj(),
		}
	case 1: // Shares.
		return []*resourceapi.ResourceSlice{builder.Slice("shared-"+node).InPool(node, generation, 1).OnNode(node).
			Devices(builder.Device("gpu-0").Shared().Capacity("memory", "10Gi"), builder.Device("gpu-1")).Obj()}
	case 2: // Two slices, perhaps one of them missing.
		all := []*resourceapi.ResourceSlice{
			builder.Slice("a-"+node).InPool(node, generation, 2).OnNode(node).Devices(builder.Device("gpu-0")).Obj(),
			builder.Slice("b-"+node).InPool(node, generation, 2).OnNode(node).Devices(builder.Device("gpu-1").Taint("bad", resourceapi.DeviceTaintEffectNoSchedule), builder.Device("gpu-2")).Obj(),
		}
		return all[:1+r.IntN(2)]
	}
	return []*resourceapi.ResourceSlice{builder.Slice("plain-"+node).InPool(node, generation, 1).OnNode(node).Devices(builder.NumberedDevices("gpu", 1+r.IntN(3))...).Obj()}
}

func (r *richWorld) richPod(o *Objects) *v1.Pod {
	request := builder.Request("gpu", builder.Driver)
	switch r.IntN(7) {
	case 0:
		request = request.Count(2)
	case 1:
		request = request.Admin()
	case 2:
		request = request.Capacity("memory", "5Gi")
	case 3:
		request = request.All()
	case 4:
		pod := builder.Pod(r.name("pod"), builder.Container("main", "example.com/gpu", "1"))
		return pod
	case 5:
		request = builder.FirstAvailable("gpu", builder.Request("two", builder.Driver).Count(2), builder.Request("one", builder.Driver))
	}
	if r.IntN(2) == 0 {
		template := builder.Claim(r.name("template"), request).Template()
		o.Templates = append(o.Templates, template)
		return builder.Pod(r.name("pod"), builder.Using(builder.FromTemplate(template.Name)...))
	}
	claim := builder.Claim(r.name("claim"), request).Obj()
	if r.IntN(2) == 0 {
		claim.UID = ""
	}
	o.Claims = append(o.Claims, claim)
	return builder.Pod(r.name("pod"), builder.Using(builder.Uses(claim.Name)...), builder.Container("main", "cpu", "300m"))
}

func (r *richWorld) richStep(t *testing.T, s *Snapshot) *Snapshot {
	t.Helper()
	var more Objects
	switch nodes, claims, pods := s.Nodes(), s.Claims(), s.Pods(); r.IntN(11) {
	case 0:
		r.addRichNode(&more)
	case 1: // A node's pool is published again, in a generation that may be older.
		more.Slices = r.slicesOf(nodes[r.IntN(len(nodes))].Name, int64(r.IntN(4)))
	case 2:
		more.TaintRules = []*resourceapi.DeviceTaintRule{builder.TaintRule("rule", builder.Driver, nodes[0].Name, "gpu-0", "bad", resourceapi.DeviceTaintEffectNoSchedule)}
	case 3:
		node := nodes[r.IntN(len(nodes))].DeepCopy()
		node.Status.Allocatable["cpu"] = builder.Resources("x", fmt.Sprint(1+r.IntN(3)))["x"]
		more.Nodes = append(more.Nodes, node)
	case 4:
		class := s.Classes()[0].DeepCopy()
		class.UID, class.ResourceVersion = "class", "1"
		class.Spec.Selectors = append(class.Spec.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("%d > %d", r.IntN(4), r.IntN(4))}})
		if len(class.Spec.Selectors) > 2 {
			class.Spec.Selectors = class.Spec.Selectors[:1]
		}
		more.Classes = append(more.Classes, class)
	case 5, 6:
		if len(claims) > 0 {
			claim := claims[r.IntN(len(claims))].DeepCopy()
			if r.IntN(2) == 0 {
				claim.Status = resourceapi.ResourceClaimStatus{}
			} else {
				claim.Status.Allocation = builder.Claim("x", builder.Request("gpu", builder.Driver)).Allocated(nodes[r.IntN(len(nodes))].Name, "gpu-0").Status.Allocation
			}
			if r.IntN(3) == 0 {
				claim.UID = ""
			}
			more.Claims = append(more.Claims, claim)
		}
	case 7:
		if len(pods) > 0 {
			pod := pods[r.IntN(len(pods))].DeepCopy()
			pod.Status.Phase = []v1.PodPhase{v1.PodSucceeded, v1.PodRunning}[r.IntN(2)]
			pod.Spec.NodeName = nodes[r.IntN(len(nodes))].Name
			more.Pods = append(more.Pods, pod)
		}
	case 8:
		return r.remove(t, s)
	default:
		asked := []*v1.Pod{r.richPod(&more), r.richPod(&more)}
		answer, err := s.With(more).Fit(t.Context(), asked...)
		require.NoError(t, err)
		return answer.After
	}
	return s.With(more)
}

func (r *richWorld) richCompare(t *testing.T, derived, afresh *Snapshot) {
	t.Helper()
	require.Equal(t, sharesIn(afresh), sharesIn(derived))
	var more Objects
	pods := []*v1.Pod{r.richPod(&more), r.richPod(&more), r.richPod(&more), r.richPod(&more)}
	derived, afresh = derived.With(more), afresh.With(more)
	for range 2 {
		got, err := derived.Fit(t.Context(), pods...)
		require.NoError(t, err)
		want, err := afresh.Fit(t.Context(), pods...)
		require.NoError(t, err)
		require.Equal(t, answerOf(want), answerOf(got))
		require.Equal(t, sharesIn(want.After), sharesIn(got.After))
		require.Equal(t, sharesIn(New(got.After.objects(), Options{})), sharesIn(got.After))
	}
	for _, pod := range pods {
		got, err := derived.Explain(t.Context(), pod)
		require.NoError(t, err)
		want, err := afresh.Explain(t.Context(), pod)
		require.NoError(t, err)
		require.Equal(t, reasons(want), reasons(got))
		one, err := derived.Fit(t.Context(), pod)
		require.NoError(t, err)
		require.Equal(t, len(got.Fits) > 0, one.Verdict == Fits, "%v", got)
	}
}

// sharesIn is poolsIn with shares.
func sharesIn(s *Snapshot) []string {
	var all []string
	for _, pool := range s.Pools() {
		text := fmt.Sprint(pool.ID, " ", pool.State)
		for i := range pool.Devices {
			use := s.usage.OfPool(pool).Device(pool.Devices[i].Name)
			text += fmt.Sprintf(" %s:%d:", pool.Devices[i].Name, len(use.Holders))
			var shares []string
			for _, share := range use.Shares {
				shares = append(shares, fmt.Sprint(share.Holder, share.ID, len(share.Consumed)))
			}
			slices.Sort(shares)
			text += fmt.Sprint(shares)
		}
		all = append(all, text)
	}
	return all
}

func answerOf(answer *Answer) string {
	text := string(answer.Verdict)
	for i := range answer.Plans {
		text += " " + answer.Plans[i].Node
		for _, claim := range answer.Plans[i].Claims {
			for _, result := range claim.Status.Allocation.Devices.Results {
				text += fmt.Sprint(" ", claim.Name, claim.UID, result.Pool, result.Device, ptr.Deref(result.ShareID, ""))
			}
		}
	}
	return text
}
