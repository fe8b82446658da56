package eligibility_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/draoptionalnodeoperations"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/eligibility"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

func open() *resourceapi.ResourceClaim {
	return builder.Claim("c", builder.Request("gpu", "gpu")).Obj()
}

// allocated is a claim with a device on n1.
func allocated() *resourceapi.ResourceClaim {
	return builder.Claim("c", builder.Request("gpu", "gpu")).Allocated("n1", "gpu-0")
}

func of(object *resourceapi.ResourceClaim) *eligibility.Claim {
	return &eligibility.Claim{Claim: commit.Claim{Object: object}}
}

func onlyOn(t *testing.T, node string) *nodeaffinity.NodeSelector {
	t.Helper()
	nodes, err := nodeaffinity.NewNodeSelector(builder.NodeSelector("kubernetes.io/hostname", node))
	require.NoError(t, err)
	return nodes
}

// TestPlannedAllocationNeedsItsNode: what is planned for others of the group asks the same
// of a node as an allocation that is written.
func TestPlannedAllocationNeedsItsNode(t *testing.T) {
	t.Parallel()
	claim := of(open())
	claim.Shared = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "gpu", SkipNodeOperations: []resourceapi.SkipNodeOperation{"Prepare"}},
	}}}
	plain, able := builder.Node("n1"), builder.Node("n2")
	able.Status.DeclaredFeatures = []string{draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate}
	require.False(t, claim.UsableOn(plain))
	require.True(t, claim.UsableOn(able))

	claim.Nodes = onlyOn(t, "n1")
	require.False(t, claim.UsableOn(able))
}

// rules are such that nothing is in the way.
func rules() *eligibility.Rules {
	return &eligibility.Rules{Server: server{}, Attempt: attempt{usable: true}}
}

// server is a server on which claims have two consumers at most.
type server struct {
	podclaims.Server
	recordable bool
}

func (server) NoClaims() error                              { return nil }
func (server) ConsumerLimit(*resourceapi.ResourceClaim) int { return 2 }
func (s server) StoresExtendedResources() bool              { return s.recordable }

// attempt is an attempt with the same answer for all claims.
type attempt struct {
	planned *resourceapi.AllocationResult
	usable  bool
	broken  error
}

func (a attempt) Planned(*v1.Pod, types.UID) (*resourceapi.AllocationResult, bool) {
	return a.planned, a.usable
}

func (a attempt) BrokenBinding(*v1.Pod, *resourceapi.ResourceClaim) error { return a.broken }

func TestCheck(t *testing.T) {
	t.Parallel()
	plan := allocated().Status.Allocation
	plan.NodeSelector = builder.NodeSelector("kubernetes.io/hostname", "n1")
	unreadable := func() *v1.NodeSelector {
		selector := builder.NodeSelector("zone", "a")
		selector.NodeSelectorTerms[0].MatchExpressions[0].Operator = "Near"
		return selector
	}
	broken := errors.New("device broke")
	with := func(claim *resourceapi.ResourceClaim, change func(*resourceapi.ResourceClaim)) *resourceapi.ResourceClaim {
		change(claim)
		return claim
	}
	consumers := func(names ...types.UID) (references []resourceapi.ResourceClaimConsumerReference) {
		for _, name := range names {
			references = append(references, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: string(name), UID: name})
		}
		return references
	}
	planned := func(allocation *resourceapi.AllocationResult, usable bool) func(*eligibility.Rules) {
		return func(r *eligibility.Rules) {
			r.Attempt = attempt{planned: allocation, usable: usable}
		}
	}
	tests := map[string]struct {
		claim   *resourceapi.ResourceClaim
		rules   func(*eligibility.Rules)
		err     string
		decided bool
		broken  error
		// on are the nodes of n1 and n2 that the claim admits.
		on []string
	}{
		"open":      {claim: open(), on: []string{"n1", "n2"}},
		"allocated": {claim: allocated(), decided: true, on: []string{"n1", "n2"}},
		"allocated on one node": {
			claim:   with(allocated(), func(c *resourceapi.ResourceClaim) { c.Status.Allocation.NodeSelector = plan.NodeSelector }),
			decided: true, on: []string{"n1"},
		},
		"allocated nobody knows where": {
			claim: with(allocated(), func(c *resourceapi.ResourceClaim) { c.Status.Allocation.NodeSelector = unreadable() }),
			err:   "the node selector of its allocation cannot be parsed",
		},
		"full": {
			claim: with(allocated(), func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor = consumers("a", "b") }),
			err:   "resourceclaim in use: claim default/c is reserved for 2 pods (the limit)",
		},
		"full of the pod itself": {
			claim:   with(allocated(), func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor = consumers("a", "p") }),
			decided: true, on: []string{"n1", "n2"},
		},
		"broken": {
			claim:   allocated(),
			rules:   func(r *eligibility.Rules) { r.Attempt = attempt{usable: true, broken: broken} },
			decided: true, broken: broken, on: []string{"n1", "n2"},
		},
		"planned for the group": {claim: open(), rules: planned(plan, true), decided: true, on: []string{"n1"}},
		"planned for others":    {claim: open(), rules: planned(plan, false), err: "claim default/c is being allocated for another pod"},
		"planned nobody knows where": {
			claim: open(), rules: planned(&resourceapi.AllocationResult{NodeSelector: unreadable()}, true),
			err: "the node selector of what is planned for it cannot be parsed",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rules()
			if test.rules != nil {
				test.rules(r)
			}
			claim, err := r.Check(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p"}}, test.claim)
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				require.Nil(t, claim)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.decided, claim.Decided() != nil)
			require.Equal(t, test.broken, claim.Broken)
			var on []string
			for _, name := range []string{"n1", "n2"} {
				if eligibility.Admit(builder.Node(name), []*eligibility.Claim{claim}) {
					on = append(on, name)
				}
			}
			require.Equal(t, test.on, on)
		})
	}
}

// TestNotOn: all allocated claims that are in the way are told, and of the reasons, that of one which is being allocated
// or else the first.
func TestNotOn(t *testing.T) {
	t.Parallel()
	usable, elsewhere, broken, undecided, shared := of(allocated()), of(allocated()), of(allocated()), of(open()), of(open())
	elsewhere.Nodes, undecided.Nodes, shared.Nodes = onlyOn(t, "n2"), onlyOn(t, "n2"), onlyOn(t, "n2")
	broken.Broken = errors.New("device broke")
	shared.Shared = allocated().Status.Allocation
	tests := map[string]struct {
		claims, allocated []*eligibility.Claim
		reason            string
	}{
		"all usable": {claims: []*eligibility.Claim{usable, undecided}},
		"first elsewhere": {
			claims: []*eligibility.Claim{usable, elsewhere, broken}, allocated: []*eligibility.Claim{elsewhere, broken},
			reason: "resourceclaim not available on the node: claim default/c is allocated on other nodes",
		},
		"first broken": {
			claims: []*eligibility.Claim{broken, elsewhere}, allocated: []*eligibility.Claim{broken, elsewhere},
			reason: "resourceclaim not available on the node: device broke",
		},
		"being allocated": {
			claims: []*eligibility.Claim{broken, shared}, allocated: []*eligibility.Claim{broken},
			reason: "resourceclaim not available on the node: claim default/c is being allocated on other nodes for the pod's group",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			allocated, reason := eligibility.NotOn(builder.Node("n1"), test.claims)
			require.Equal(t, test.allocated, allocated)
			if test.reason == "" {
				require.NoError(t, reason)
				return
			}
			require.EqualError(t, reason, test.reason)
		})
	}
}

func TestUnsuitable(t *testing.T) {
	t.Parallel()
	undecided, elsewhere := of(open()), of(allocated())
	undecided.Nodes, elsewhere.Nodes = onlyOn(t, "n1"), onlyOn(t, "n2")
	claims := []*eligibility.Claim{undecided, elsewhere}
	require.NoError(t, eligibility.Unsuitable(builder.Node("n1"), claims), "what is allocated is not for it to judge")
	require.EqualError(t, eligibility.Unsuitable(builder.Node("n2"), claims), "claim default/c: the node is not among the suitableNodes of its class")
}
