package quartermaster

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// claimCase is a claim event and a pod that waits.
type claimCase struct {
	pod    *v1.Pod
	others []*resourceapi.ResourceClaim // what else exists
	// before and after the event, nil if it created or deleted the claim.
	before, after *resourceapi.ResourceClaim
	// tombstone: the end of the claim was missed, before is the last known state.
	tombstone bool
	// missed: it had a GPU since, which no event shows. Our own write or an event in between
	// told the ledger.
	missed bool
	want   bool
	// fits: with the event the pod fits on the node.
	fits bool
}

func labelled(claim *resourceapi.ResourceClaim) {
	claim.Labels = map[string]string{"changed": "yes"}
}

func beingDeleted(claim *resourceapi.ResourceClaim) {
	claim.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
}

// anotherOfThatName makes a claim one that was created after it had been deleted.
func anotherOfThatName(claim *resourceapi.ResourceClaim) { claim.UID = "new" }

func claimCases() map[string]claimCase {
	waiting := newPod("p", uses("c"))
	c, other := gpus("c", 1).Obj(), gpus("other", 1).Obj()
	otherHas := gpus("other", 1).Allocated("n1", "gpu-0")
	otherHasNIC := gpus("other", 1).Allocated("nics", "nic-0")
	nowC := []*resourceapi.ResourceClaim{c}
	return map[string]claimCase{
		"own created":               {pod: waiting, after: c, want: true, fits: true},
		"own allocated":             {pod: waiting, before: c, after: gpus("c", 1).Allocated("n1", "gpu-0"), want: true, fits: true},
		"own deallocated":           {pod: waiting, before: gpus("c", 1).Allocated("gone", "x"), after: c, want: true, fits: true},
		"own has a consumer less":   {pod: waiting, before: with(gpus("c", 1).Allocated("n1", "gpu-0"), reservedFor("x")), after: gpus("c", 1).Allocated("n1", "gpu-0"), want: true, fits: true},
		"own has new labels":        {pod: waiting, before: c, after: with(c, labelled)},
		"own had devices a moment":  {pod: waiting, before: c, after: c, missed: true, want: true, fits: true},
		"own deleted":               {pod: waiting, before: c},
		"own deleted, made again":   {pod: waiting, before: with(c, beingDeleted), after: with(c, anotherOfThatName), want: true, fits: true},
		"own given to the pod":      {pod: newPod("p", template("gpu"), made("gpu", "p-gpu")), before: gpus("p-gpu", 1).Obj(), after: with(gpus("p-gpu", 1).Obj(), ownedBy("p")), want: true, fits: true},
		"own created, one missing":  {pod: newPod("p", uses("c"), uses("d")), after: c},
		"own created, the last one": {pod: newPod("p", uses("c"), uses("d")), others: []*resourceapi.ResourceClaim{gpus("d", 1).Allocated("n1", "gpu-1")}, after: c, want: true, fits: true},
		"own created by template": {
			pod: newPod("p", template("gpu"), made("gpu", "p-gpu")), after: with(gpus("p-gpu", 1).Obj(), ownedBy("p")), want: true, fits: true,
		},
		"created for another pod by template": {pod: newPod("p", template("gpu"), made("gpu", "p-gpu")), after: with(gpus("p-gpu", 1).Obj(), ownedBy("q"))},
		"of that name elsewhere":              {pod: waiting, others: nowC, after: gpus("c", 1).In("elsewhere").Modify(func(c *resourceapi.ResourceClaim) { c.UID = "else" }).Obj()},

		"other created":                   {pod: waiting, others: nowC, after: other},
		"other allocated":                 {pod: waiting, others: nowC, before: other, after: otherHas},
		"other has a consumer less":       {pod: waiting, others: nowC, before: with(otherHas, reservedFor("x")), after: otherHas},
		"other deallocated":               {pod: waiting, others: nowC, before: otherHas, after: other, want: true, fits: true},
		"other deleted":                   {pod: waiting, others: nowC, before: otherHas, want: true, fits: true},
		"other deleted without any":       {pod: waiting, others: nowC, before: other},
		"other had devices for a moment":  {pod: waiting, others: nowC, before: other, missed: true, after: other, want: true, fits: true},
		"other had others for a moment":   {pod: waiting, others: nowC, before: otherHas, missed: true, after: otherHas},
		"other deleted, missed":           {pod: waiting, others: nowC, before: otherHas, tombstone: true, missed: true, want: true, fits: true},
		"other deleted, last state old":   {pod: waiting, others: nowC, before: other, tombstone: true, missed: true, want: true, fits: true},
		"other deleted, had another then": {pod: waiting, others: nowC, before: otherHasNIC, tombstone: true, missed: true, want: true, fits: true},
		"other has other devices now":     {pod: waiting, others: nowC, before: otherHas, after: gpus("other", 1).Allocated("nics", "nic-0"), want: true, fits: true},
		"other replaced by one without":   {pod: waiting, others: nowC, before: otherHas, after: with(other, anotherOfThatName), want: true, fits: true},

		"devices of another class freed": {pod: waiting, others: nowC, before: otherHasNIC, after: other},
		"devices of no pool freed":       {pod: waiting, others: nowC, before: gpus("other", 1).Allocated("gone", "gpu-0"), after: other},
		"devices in another pool of class freed": {
			pod: waiting, others: []*resourceapi.ResourceClaim{builder.Claim("c", builder.Request("r", "gpu").Where(`device.attributes["gpu.example.com"].mem == 80`)).Obj()},
			before: otherHas, after: other,
		},
		"only another device of the pool would do": {
			pod: waiting, others: []*resourceapi.ResourceClaim{builder.Claim("c", builder.Request("r", "gpu").Where(`device.attributes["gpu.example.com"].mem == 48`)).Obj()},
			before: otherHas, after: other,
		},
		"selector nobody can evaluate": {
			pod: waiting, others: []*resourceapi.ResourceClaim{builder.Claim("c", builder.Request("r", "gpu").Where(`device.attributes["gpu.example.com"].none == 80`)).Obj()},
			before: otherHas, after: other, want: true,
		},
		"one of two claims could use it": {
			pod: newPod("p", uses("nic"), uses("c")), others: []*resourceapi.ResourceClaim{c, builder.Claim("nic", builder.Request("r", "nic")).Obj()},
			before: otherHas, after: other, want: true, fits: true,
		},
		"needs no more devices":        {pod: waiting, others: []*resourceapi.ResourceClaim{gpus("c", 1).Allocated("n1", "gpu-1")}, before: otherHas, after: other},
		"cannot be scheduled, missing": {pod: newPod("p", uses("c"), uses("d")), others: nowC, before: otherHas, after: other},
		"pods without claims":          {pod: newPod("p"), before: otherHas, after: other},
	}
}

// claimWorld fills the stores: one node with two GPUs of which the second is held,
// and network devices of another class.
func (f *fixture) claimWorld() {
	f.create(builder.Node("n1"))
	f.arrive(
		builder.Class("gpu", `device.driver == "gpu.example.com"`), builder.Class("nic", `device.driver == "nic.example.com"`),
		builder.NodeSlice("n1", builder.Device("gpu-0").Attr("mem", 40), builder.Device("gpu-1").Attr("mem", 48)).Obj(),
		builder.Slice("nics").OfDriver("nic.example.com").OnAllNodes().Devices(builder.Devices("nic-0", "nic-1")...).Obj(),
	)
	f.pl.state.RefreshSlice("n1")
	f.pl.state.RefreshSlice("nics")
}

// version copies a claim at a resource version. What it has of pool nics gets the
// right driver: builder.Claim knows only one.
func version(claim *resourceapi.ResourceClaim, resourceVersion string) *resourceapi.ResourceClaim {
	if claim == nil {
		return nil
	}
	claim = claim.DeepCopy()
	claim.ResourceVersion = resourceVersion
	if claim.Status.Allocation != nil {
		for i, result := range claim.Status.Allocation.Devices.Results {
			if result.Pool == "nics" {
				claim.Status.Allocation.Devices.Results[i].Driver = "nic.example.com"
			}
		}
	}
	return claim
}

// TestClaimEvents also checks what the design rests on: the state shows an event when
// a pod is woken, although the handler of the state has not run.
func TestClaimEvents(t *testing.T) {
	t.Parallel()
	for name, test := range claimCases() {
		for _, when := range []string{"before the event", "while it happens"} {
			t.Run(name+", rejected "+when, func(t *testing.T) {
				t.Parallel()
				beforeEvents(t, func(t *testing.T, f *fixture) {
					f.claimWorld()
					f.arrive(test.pod)
					for _, claim := range append(test.others, gpus("holder", 1).Allocated("n1", "gpu-1")) {
						f.arrive(claim)
						f.pl.state.RefreshClaim(claim.Namespace + "/" + claim.Name)
					}
					f.claimWas(test)
					woken := f.wakesRejected(test, when == "before the event")
					require.Equal(t, test.want, woken)
					require.Equal(t, test.fits, test.want && f.fits(test.pod), "the pod fits now")
				})
			})
		}
	}
}

// wakesRejected reports whether the pod gets into the queue by the event, if this plugin
// rejects it before that, or after.
func (f *fixture) wakesRejected(test claimCase, before bool) bool {
	_, _ = f.begin(test.pod)
	entry := f.pl.waiting.Get(test.pod.UID)
	if entry != nil && before {
		f.pl.waker.Reject(entry)
	}
	f.claimHappens(test)
	if entry != nil && !before {
		f.pl.waker.Reject(entry)
	}
	return slices.Contains(f.names(), test.pod.Namespace+"/"+test.pod.Name) && f.pl.PreEnqueue(f.ctx, test.pod).IsSuccess()
}

// claimWas brings the claim into its state before the event.
func (f *fixture) claimWas(test claimCase) {
	before := version(test.before, "10")
	if before == nil {
		return
	}
	f.arrive(before)
	f.pl.state.RefreshClaim(before.Namespace + "/" + before.Name)
	if test.missed {
		f.pl.state.Ledger.Observe(version(with(before, allocate("n1", "gpu-0")), "11"))
	}
}

// claimHappens brings the claim into its last state and tells the plugin.
func (f *fixture) claimHappens(test claimCase) {
	before, after := version(test.before, "10"), version(test.after, "20")
	if after == nil {
		f.leave(before)
	} else {
		f.arrive(after)
	}
	tell(f.t, f.pl.state.claimChanged, before, after, test.tombstone)
}

// TestClaimEventKeepsNewerState: events that the informer has may be older than what is
// known of our own writes. Looking at its store must not undo that.
func TestClaimEventKeepsNewerState(t *testing.T) {
	t.Parallel()
	beforeEvents(t, func(t *testing.T, f *fixture) {
		f.claimWorld()
		f.create(gpus("c", 1).Obj())
		stored := f.claim("c")
		f.arrive(stored, builder.Node("n1"))
		require.Empty(t, f.schedule(newPod("p", uses("c"))).phase)
		require.Equal(t, []string{"gpu-0"}, f.inUse("n1"))

		second := newPod("second", uses("c"))
		f.arrive(second)
		require.Empty(t, stored.Status.Allocation, "the store is old")
		tell(t, f.pl.state.claimChanged, stored, f.claim("c"), false)
		require.Contains(t, f.names(), "default/second")
		require.Equal(t, []string{"gpu-0"}, f.inUse("n1"))
		require.True(t, f.fits(second))
	})
}

// TestClaimEventsOfOtherHandlers: what the scheduler's manager of claims has not heard
// of yet must be seen by a pod that is woken by it.
func TestClaimEventsOfOtherHandlers(t *testing.T) {
	t.Parallel()
	beforeEvents(t, func(t *testing.T, f *fixture) {
		f.claimWorld()
		pod := newPod("p", uses("c"))
		f.arrive(pod, version(gpus("c", 1).Allocated("gone", "x"), "10"))
		require.NoError(t, f.indexerOf(gpus("c", 1).Obj()).Update(version(gpus("c", 1).Obj(), "20")))
		require.True(t, f.fits(pod))
	})
}

func TestTargetPodHint(t *testing.T) {
	t.Parallel()
	before := newPod("p", template("gpu"), uses("c"))
	after := newPod("p", template("gpu"), uses("c"), made("gpu", "p-gpu"))
	owned := with(gpus("p-gpu", 1).Obj(), ownedBy("p"))
	tests := map[string]struct {
		claims []*resourceapi.ResourceClaim
		want   bool
	}{
		"all there":            {claims: []*resourceapi.ResourceClaim{gpus("c", 1).Obj(), owned}, want: true},
		"claim not seen yet":   {claims: []*resourceapi.ResourceClaim{gpus("c", 1).Obj()}},
		"other claim missing":  {claims: []*resourceapi.ResourceClaim{owned}},
		"claim of another pod": {claims: []*resourceapi.ResourceClaim{gpus("c", 1).Obj(), gpus("p-gpu", 1).Obj()}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			beforeEvents(t, func(t *testing.T, f *fixture) {
				for _, claim := range test.claims {
					f.arrive(claim)
				}
				e := event{resource: fwk.TargetPod, action: fwk.UpdatePodGeneratedResourceClaim, oldObj: before, newObj: after}
				require.Equal(t, test.want, f.wakes(e, before))
			})
		})
	}
}
