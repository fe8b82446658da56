package karpenter

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/catalogue"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
)

const (
	// poolLabel names the NodePool of a NodeClaim.
	poolLabel = "karpenter.sh/nodepool"
	// capacityType is how a node is paid for: onDemand for all.
	capacityType = "karpenter.sh/capacity-type"
	onDemand     = "on-demand"
	// one and two are the names of claim templates for that many devices.
	one, two = "one", "two"
)

var (
	nodePools  = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}
	nodeClaims = nodePools.GroupVersion().WithKind("NodeClaim")
)

// nodeClass is the part of a node's settings that a cloud provider defines.
const nodeClass = `{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: default}}`

// nodePool is a NodePool whose nodes have a label of the space: name, more fields, kinds of nodes, and taints.
const nodePool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %[1]s}
spec:
  %[2]s
  template:
    metadata: {labels: {` + fleet.NodePoolLabel + `: %[1]s}}
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: ` + capacityType + `, operator: In, values: [` + onDemand + `]}
      - {key: ` + corev1.LabelInstanceTypeStable + `, operator: In, values: [%[3]s]}
      expireAfter: Never
      startupTaints: [%[4]s]
  disruption: {budgets: [{nodes: 100%%}], consolidateAfter: Never}
`

// space is the part of the cluster that belongs to one test, with a NodePool of the same name and no nodes.
type space struct {
	*harness.Space
	scheduler *harness.Scheduler
}

// poolOptions are the differences between a NodePool and another one.
type poolOptions struct {
	// pool are more fields of its spec. taint is one of new nodes, which is to go before pods start.
	pool, taint string
	// kind is the only kind of its nodes.
	kind string
	// byHand leaves it to the test to publish the devices of nodes.
	byHand bool
	// args gives the space a scheduler of its own, with these arguments of the plugin.
	args map[string]any
}

// newSpace makes a space with a NodePool, claim templates, and a driver that publishes the devices of new nodes.
func newSpace(t *testing.T, name string, o poolOptions) *space {
	t.Helper()
	require.NoError(t, manifests.Apply(t.Context(), cluster.ControlPlane.AdminConfig(), manifests.PodGroups, manifests.ApplyOptions{}))
	var s *space
	if o.args != nil {
		s = &space{Space: cluster.NewBareSpace(t, name, "", 0)}
		s.scheduler = s.StartScheduler(harness.SchedulerOptions{PluginArgs: o.args})
	} else {
		scheduler := shared.Get(t, cluster, harness.SchedulerOptions{Name: "shared", FeatureGates: catalogue.FeatureGates()})
		s = &space{cluster.NewBareSpace(t, name, scheduler.Profile, 0), scheduler}
		s.Log = scheduler.LogFile()
	}
	s.Driver = builder.Driver // Karpenter knows only one.
	s.Create(builder.Class(s.Name, builder.OfDriver(s.Driver)),
		builder.Claim(one, s.Want(1)).Template(), builder.Claim(two, s.Want(2)).Template())
	if !o.byHand {
		s.drive()
	}
	taint, kinds := "", "cpu-only, gpu-one, gpu-two"
	if o.taint != "" {
		taint = fmt.Sprintf("{key: %s, effect: NoSchedule}", o.taint)
	}
	if o.kind != "" {
		kinds = o.kind
	}
	cluster.Apply(t, harness.Decode(t, fmt.Appendf(nil, nodePool, s.Name, o.pool, kinds, taint))...)
	s.says(nodePools, s.Name, "Ready", "True", "")
	return s
}

// consolidate has Karpenter remove and replace nodes. Unless something changes in the cluster, it looks at nodes again only after five
// minutes: this changes something each second until the end of the test.
func (s *space) consolidate() {
	s.T.Helper()
	s.patchPool(`{"spec":{"disruption":{"consolidateAfter":"0s"}}}`)
	pools := cluster.Resources(s.T, nodePools, "")
	ctx, cancel := context.WithCancel(context.Background())
	var changing sync.WaitGroup
	changing.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			text := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/change":"%d"}}}`, i)
			// If this fails, the next one may not.
			_, _ = pools.Patch(ctx, s.Name, types.MergePatchType, text, metav1.PatchOptions{})
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	s.T.Cleanup(func() {
		cancel()
		changing.Wait()
	})
}

// keepNodes ends what consolidate began: later tests run beside the nodes of this one.
func (s *space) keepNodes() {
	s.T.Helper()
	s.patchPool(`{"spec":{"disruption":{"consolidateAfter":"Never"}}}`)
}

// patchPool merges a JSON text into the NodePool.
func (s *space) patchPool(text string) {
	s.T.Helper()
	_, err := cluster.Resources(s.T, nodePools, "").Patch(s.T.Context(), s.Name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
	require.NoError(s.T, err)
}

// says waits until a condition of an object of Karpenter's has a status and a reason, any if that is empty.
func (s *space) says(kind schema.GroupVersionKind, name, condition, status, reason string) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("have %s %s say %s=%s because of %q", kind.Kind, name, condition, status, reason), func(ctx context.Context) error {
		found, err := cluster.Resources(s.T, kind, "").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		gotStatus, gotReason, _ := harness.Condition(found, condition)
		if gotStatus != status || reason != "" && gotReason != reason {
			conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
			return fmt.Errorf("it says %v", conditions)
		}
		return nil
	})
}

// told waits until an event of an object has a reason and a part of a message. Events of nodes are in the default namespace.
func (s *space) told(namespace, object, reason, part string) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("have an event %s of %s with %q", reason, object, part), func(ctx context.Context) error {
		events, err := cluster.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + object})
		if err != nil {
			return err
		}
		var messages []string
		for i := range events.Items {
			event := &events.Items[i]
			if event.Reason == reason && strings.Contains(event.Message, part) {
				return nil
			}
			messages = append(messages, event.Reason+": "+event.Message)
		}
		return fmt.Errorf("its events: %s", strings.Join(messages, "; "))
	})
}

// claimed returns the NodeClaims of the NodePool that are not being deleted, in the order of their creation.
func (s *space) claimed(ctx context.Context) ([]unstructured.Unstructured, error) {
	found, err := cluster.Resources(s.T, nodeClaims, "").List(ctx, metav1.ListOptions{LabelSelector: poolLabel + "=" + s.Name})
	if err != nil {
		return nil, err
	}
	claims := slices.DeleteFunc(found.Items, func(claim unstructured.Unstructured) bool { return claim.GetDeletionTimestamp() != nil })
	slices.SortFunc(claims, func(a, b unstructured.Unstructured) int {
		return a.GetCreationTimestamp().Time.Compare(b.GetCreationTimestamp().Time)
	})
	return claims, nil
}

// claimedOnce returns the names of the NodeClaims, of which there have to be so many.
func (s *space) claimedOnce(count int) (names []string) {
	s.T.Helper()
	claims, err := s.claimed(s.T.Context())
	require.NoError(s.T, err)
	for i := range claims {
		names = append(names, claims[i].GetName())
	}
	require.Len(s.T, names, count)
	return names
}

// nodes waits until the NodePool has so many nodes that are not being deleted, and returns them.
func (s *space) nodes(count int) (nodes []corev1.Node) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("have %d nodes", count), func(ctx context.Context) error {
		list, err := cluster.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: fleet.NodePoolLabel + "=" + s.Name})
		if err != nil {
			return err
		}
		nodes = slices.DeleteFunc(list.Items, func(node corev1.Node) bool { return node.DeletionTimestamp != nil })
		if len(nodes) != count {
			return fmt.Errorf("it has %d", len(nodes))
		}
		return nil
	})
	return nodes
}

// node returns the node of a pod that runs.
func (s *space) node(pod string) *corev1.Node {
	s.T.Helper()
	node, err := cluster.Client.CoreV1().Nodes().Get(s.T.Context(), s.LivePod(pod).Spec.NodeName, metav1.GetOptions{})
	require.NoError(s.T, err)
	return node
}

// kind returns the instance type of the node of a pod that runs.
func (s *space) kind(pod string) string {
	s.T.Helper()
	return s.node(pod).Labels[corev1.LabelInstanceTypeStable]
}
