package devicescmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/devicefacts"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// explainOutput is what -o json prints of explain.
type explainOutput struct {
	metav1.TypeMeta `json:",inline"`
	// Said is what the pod's PodScheduled condition says.
	Said string `json:"said,omitempty"`
	// Node is where the pod is, "" if it waits.
	Node string `json:"node,omitempty"`
	// Explanation is why it waits.
	Explanation *whatif.Explanation `json:"explanation,omitempty"`
	// Victims are who preemption could evict, by node.
	Victims []victimsOutput `json:"victims,omitempty"`
	// Why are the devices that are allocated, and why these.
	Why []whyOutput `json:"why,omitempty"`
}

// victimsOutput are pods whose end would make room on a node.
type victimsOutput struct {
	Node string   `json:"node"`
	Pods []string `json:"pods"`
}

func newExplain(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "explain POD | CLAIM",
		Short: "Why a pod waits, node by node, or why it has the devices that it has",
		Long: `Why a pod waits: nodes by what is in the way, in full for the first of them, the nodes that lack the least,
and who could be evicted there for it. For a pod that is on a node: which devices it has, and why these.

A pod or a claim is NAME or NAMESPACE/NAME, or says what it is: pod/NAME, claim/NAME. Of a claim the pods are
explained that use it; without any, where it could be allocated.`,
		Example: `  # Why does it wait?
  kubectl devices explain train-0

  # The same as data, from a dump
  kubectl devices explain pod/default/train-0 -o yaml --from cluster.dump`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.argument(o.claimNames, o.podNames),
		RunE: func(command *cobra.Command, args []string) error {
			facts, err := o.facts(command.Context())
			if err != nil {
				return err
			}
			return o.explain(command.Context(), facts, args[0])
		},
	}
}

func (o *options) explain(ctx context.Context, facts *devicefacts.Facts, name string) error {
	s := facts.Snapshot()
	kind, rest := kindAndName(name)
	namespace, object := o.namespace(), rest
	if before, after, qualified := strings.Cut(rest, "/"); qualified {
		namespace, object = before, after
	}
	if kind != "claim" {
		if pod := s.Pod(namespace, object); pod != nil {
			return o.explainPod(ctx, facts, pod)
		}
	}
	if kind != "pod" {
		if claim := s.Claim(namespace, object); claim != nil {
			return o.explainClaim(ctx, facts, claim)
		}
	}
	return fmt.Errorf("there is no pod %[1]s/%[2]s and no claim of that name, or it cannot be read; "+
		"name it as NAMESPACE/NAME, or give its namespace with -n", namespace, object)
}

// explainClaim explains a claim by a pod that uses it.
func (o *options) explainClaim(ctx context.Context, facts *devicefacts.Facts, claim *resourceapi.ResourceClaim) error {
	known := facts.Claim(claim.Namespace, claim.Name)
	for _, pod := range facts.PodsOf(known) {
		return o.explainPod(ctx, facts, pod)
	}
	if claim.Status.Allocation != nil {
		out := explainOutput{TypeMeta: kindOf("Explanation"), Why: why(facts, []*resourceapi.ResourceClaim{claim})}
		if done, err := o.structured(out); done {
			return err
		}
		o.say("Claim %s is allocated, and no pod uses it.", whatif.Key(claim))
		o.printWhy(out.Why)
		return nil
	}
	if o.output == "" || o.output == "wide" {
		o.say("No pod uses claim %s: it is allocated when one does and gets a node. As for a pod that uses", whatif.Key(claim))
		o.say("nothing else:")
	}
	reference := v1.PodResourceClaim{Name: "claim", ResourceClaimName: &claim.Name}
	return o.explainWaiting(ctx, facts, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: "a-pod-with-" + claim.Name},
		Spec:       v1.PodSpec{ResourceClaims: []v1.PodResourceClaim{reference}},
	})
}

func (o *options) explainPod(ctx context.Context, facts *devicefacts.Facts, pod *v1.Pod) error {
	if pod.Spec.NodeName == "" {
		return o.explainWaiting(ctx, facts, pod)
	}
	out := explainOutput{TypeMeta: kindOf("Explanation"), Node: pod.Spec.NodeName, Why: why(facts, facts.Snapshot().ClaimsOf(pod))}
	if done, err := o.structured(out); done {
		return err
	}
	o.say("Pod %s is on node %s.", whatif.Key(pod), pod.Spec.NodeName)
	if len(out.Why) == 0 {
		o.say("It has no claims for devices.")
	}
	o.printWhy(out.Why)
	return nil
}

func (o *options) explainWaiting(ctx context.Context, facts *devicefacts.Facts, pod *v1.Pod) error {
	s := facts.Snapshot()
	explanation, err := s.Explain(ctx, pod)
	if err != nil {
		return err
	}
	out := explainOutput{TypeMeta: kindOf("Explanation"), Said: said(pod), Explanation: explanation}
	if out.Victims, err = victims(ctx, s, pod, explanation); err != nil {
		return err
	}
	if done, err := o.structured(out); done {
		return err
	}
	o.printWaiting(facts, pod, &out)
	return nil
}

// said is what the scheduler has said about a pod.
func said(pod *v1.Pod) string {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodScheduled && c.Status != v1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// victims are those on the nodes that lack the least.
func victims(ctx context.Context, s *whatif.Snapshot, pod *v1.Pod, e *whatif.Explanation) ([]victimsOutput, error) {
	var all []victimsOutput
	for i := range e.Nearest {
		found, possible, err := s.Victims(ctx, pod, e.Nearest[i].Node)
		if err != nil {
			return nil, err
		}
		if !possible {
			continue
		}
		v := victimsOutput{Node: e.Nearest[i].Node}
		for _, victim := range found {
			v.Pods = append(v.Pods, whatif.Key(victim))
		}
		all = append(all, v)
	}
	return all, nil
}
