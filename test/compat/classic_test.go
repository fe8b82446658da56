package compat

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/classicdra/negotiation"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// A claim is allocated where its driver has room, which only the driver knows. Then there
// is nothing left to negotiate about.
func TestClassicUnsuitableNodes(t *testing.T) {
	t.Parallel()
	s := newClassicSpace(t, "c-unsuitable", 3)
	d := newDriver(s, "one", places(0, 0, 1))
	d.createClaim("gpu")
	s.Create(s.Pod("user", builder.Uses("gpu")))
	s.Running("user")
	require.Equal(t, s.Node(2), s.LivePod("user").Spec.NodeName)
	claim := s.LiveClaim("gpu")
	require.Len(t, claim.Status.ReservedFor, 1)
	require.Equal(t, []string{d.finalizer()}, claim.Finalizers, "it is protected by its driver")
	d.contextGone("user")

	d.createClaim("more")
	s.Create(s.Pod("waiting", builder.Uses("more")))
	s.Waiting("waiting", "claim "+s.Name+"/more", "cannot be allocated for this node, says its driver")
	s.DeletePod("user")
	s.Delete(builder.Claim("gpu").Obj())
	s.Running("waiting")
	require.Equal(t, s.Node(2), s.LivePod("waiting").Spec.NodeName)
}

// Claims are made from templates, and freed with their pods.
func TestClassicTemplate(t *testing.T) {
	t.Parallel()
	s := newClassicSpace(t, "c-template", 2)
	newDriver(s, "one", places(2, 2), reserves).createTemplate("one")
	s.CreatePods("user", 6)
	running := runningOfDriver(s, 4, 2)
	s.DeletePod(running[0])
	s.DeletePod(running[1])
	runningOfDriver(s, 4, 0)
}

// Of many pods at the same time, as many run as there is room for, and the others wait.
func TestClassicBurst(t *testing.T) {
	t.Parallel()
	s := newClassicSpace(t, "c-burst", 4)
	newDriver(s, "one", places(8, 8, 8, 8)).createTemplate("one")
	s.CreatePods("user", 40)
	running := runningOfDriver(s, 32, 8)
	for _, name := range running[:5] {
		s.DeletePod(name)
	}
	runningOfDriver(s, 32, 3)
}

// A claim has so many consumers, and no more.
func TestClassicConsumerLimit(t *testing.T) {
	t.Parallel()
	s := newClassicSpace(t, "c-limit", 1)
	newDriver(s, "one", places(1)).createClaim("shared")
	var names []string
	for i := range negotiation.ReservedForMaxSize {
		names = append(names, fmt.Sprintf("user-%02d", i))
		s.Create(s.Pod(names[i], builder.Uses("shared")))
	}
	s.Running(names...)
	s.Create(s.Pod("late", builder.Uses("shared")))
	s.Waiting("late", "claim "+s.Name+"/shared is reserved for 32 pods (the limit)")
	s.DeletePod(names[7])
	s.RunningSoon("late")
}

// Two drivers have to agree on a node.
func TestClassicTwoDrivers(t *testing.T) {
	t.Parallel()
	s := newClassicSpace(t, "c-drivers", 4)
	newDriver(s, "one", places(1, 0, 1, 0)).createClaim("first")
	newDriver(s, "two", places(0, 1, 1, 0), reserves).createClaim("second")
	s.Create(s.Pod("user", builder.Uses("first", "second")))
	s.Running("user")
	require.Equal(t, s.Node(2), s.LivePod("user").Spec.NodeName)
}

// Two claims of one driver have to be on the same node.
func TestClassicTwoClaims(t *testing.T) {
	t.Parallel()
	s := newClassicSpace(t, "c-claims", 3)
	d := newDriver(s, "one", places(1, 1, 2))
	d.createClaim("first")
	d.createClaim("second")
	s.Create(s.Pod("user", builder.Uses("first", "second")))
	s.Running("user")
	require.Equal(t, s.Node(2), s.LivePod("user").Spec.NodeName)
}

// Only nodes that suit the class are asked about.
func TestClassicSuitableNodes(t *testing.T) {
	t.Parallel()
	s := newClassicSpace(t, "c-suitable", 2)
	d := newDriver(s, "one", places(5, 5))
	d.createClass(map[string]string{nodeKey: s.Node(1)})
	d.createClaim("gpu")
	s.Create(s.PodOnNode("elsewhere", 0, builder.Uses("gpu")))
	s.Waiting("elsewhere", "claim "+s.Name+"/gpu: class "+d.class+" is not for this node")
	s.Create(s.Pod("user", builder.Uses("gpu")))
	s.Running("user")
	require.Equal(t, s.Node(1), s.LivePod("user").Spec.NodeName)
}

// A class may come late.
func TestClassicMissingClass(t *testing.T) {
	t.Parallel()
	s := newClassicSpace(t, "c-class", 1)
	d := newDriver(s, "one", places(1), classless)
	d.createClaim("gpu")
	s.Create(s.Pod("user", builder.Uses("gpu")))
	kind := "device class "
	if tested.claims == api.V1alpha2 {
		kind = "resource class "
	}
	s.Waiting("user", kind+d.class+" does not exist")
	d.createClass(nil)
	s.RunningSoon("user")
}

// Pods share what can be shared, and only on its node.
func TestClassicShared(t *testing.T) {
	t.Parallel()
	s := newClassicSpace(t, "c-shared", 2)
	d := newDriver(s, "one", places(1, 1))
	d.createClaim("shared")
	s.Create(s.PodOnNode("first", 1, builder.Uses("shared")))
	s.Running("first")
	s.Create(s.Pod("second", builder.Uses("shared")), s.Pod("third", builder.Uses("shared")))
	s.Running("first", "second", "third")
	require.Equal(t, s.Node(1), s.LivePod("third").Spec.NodeName)
	require.Len(t, s.LiveClaim("shared").Status.ReservedFor, 3)
	s.Create(s.PodOnNode("elsewhere", 0, builder.Uses("shared")))
	s.Waiting("elsewhere", "claim "+s.Name+"/shared is allocated on other nodes")
	for _, name := range []string{"first", "second", "third"} {
		s.DeletePod(name)
	}
	s.Running("elsewhere")
}

// What cannot be shared is used by one pod after the other.
func TestClassicExclusive(t *testing.T) {
	t.Parallel()
	if tested.claims != api.V1alpha2 {
		t.Skip("only in v1alpha2 does the driver say whether a claim can be shared")
	}
	s := newClassicSpace(t, "c-exclusive", 1)
	newDriver(s, "one", places(1), exclusive).createClaim("gpu")
	s.Create(s.Pod("first", builder.Uses("gpu")))
	s.Running("first")
	s.Create(s.Pod("second", builder.Uses("gpu")))
	s.Waiting("second", "claim "+s.Name+"/gpu is in use by first and cannot be shared")
	s.DeletePod("first")
	s.RunningSoon("second")
	require.Len(t, s.LiveClaim("gpu").Status.ReservedFor, 1)
}

// A claim may be allocated before there is a pod.
func TestClassicImmediate(t *testing.T) {
	t.Parallel()
	if tested.claims != api.V1alpha2 {
		t.Skip("only v1alpha2 has claims that are allocated without waiting for pods")
	}
	s := newClassicSpace(t, "c-immediate", 2)
	d := newDriver(s, "one", places(0, 1))
	d.halt()
	d.createClaimOf("now", "Immediate")
	s.Create(s.Pod("user", builder.Uses("now")))
	s.Waiting("user", "claim "+s.Name+"/now is not allocated", "allocationMode Immediate")
	d.start()
	s.RunningSoon("user")
	require.Equal(t, s.Node(1), s.LivePod("user").Spec.NodeName)
	s.Create(s.PodOnNode("elsewhere", 0, builder.Uses("now")))
	s.DeletePod("user")
	s.Waiting("elsewhere", "claim "+s.Name+"/now is allocated on other nodes")
}

// A claim that is allocated where its pod cannot run is freed, and allocated elsewhere.
func TestClassicBlockedClaim(t *testing.T) {
	t.Parallel()
	s := newClassicSpace(t, "c-blocked", 2)
	d := newDriver(s, "one", places(1, 1))
	d.createClaim("stuck")
	require.NoError(t, d.allocate(t.Context(), d.claim("stuck"), s.Node(0), nil))
	s.Create(s.PodOnNode("elsewhere", 1, builder.Uses("stuck")))
	s.Running("elsewhere")
	require.Equal(t, s.Node(1), allocatedNode(d.claim("stuck")))
}

// The scheduler allocates one claim of a pod and a controller the other one.
func TestClassicBesideStructured(t *testing.T) {
	t.Parallel()
	onlyClassic(t)
	s := newSpace(t, "c-beside", 3)
	s.Devices(1, harness.Numbered(1)...)
	s.Devices(2, harness.Numbered(1)...)
	newDriver(s, "one", places(1, 0, 1)).createClaim("theirs")
	s.Create(builder.Claim("ours", s.Want(1)).Obj(), s.Pod("user", builder.Uses("theirs", "ours")))
	s.Running("user")
	require.Equal(t, s.Node(2), s.LivePod("user").Spec.NodeName)
	require.Equal(t, 1, s.NothingLeaked(), "the device of the other node is free")
}
