package kubectl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
	devicefacts "github.com/quartermaster-dra/quartermaster/internal/kubectl/facts"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

func newExplain(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "explain POD | CLAIM",
		Short: "Explain why a pod waits, or why it has its devices",
		Long: `Explain why a pod waits: the obstacle on each node, the nodes that lack the least, and the pods that preemption
could evict there. The node that lacks the least is explained in full. For a pod on a node: its devices, and why it
got these.

Name a pod or claim as NAME or NAMESPACE/NAME, or with its kind: pod/NAME, claim/NAME. A claim is explained by the
pods that use it. If no pod uses it, the answer is where it could be allocated.

Exit status: 0 with an explanation, 2 if nothing is known.`,
		Example: `  # Why does a pod wait?
  kubectl devices explain train-0

  # The same as data, from a dump
  kubectl devices explain pod/default/train-0 -o yaml --from devices.json.gz`,
		Args:              onePod,
		ValidArgsFunction: o.argument(o.claimNames, o.podNames),
		RunE: func(command *cobra.Command, args []string) error {
			snapshot, err := o.snapshot(command.Context())
			if err != nil {
				return err
			}
			if why := unreachable(snapshot.Missing()); why != "" {
				return errors.New(why)
			}
			o.warnMissing(snapshot.Missing()) // The answer names the missing objects that matter for the pod.
			return o.explain(command.Context(), devicefacts.Of(snapshot), args[0])
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
	for _, resource := range []string{"pods", "resourceclaims.resource.k8s.io"} {
		if unknown := s.Absent(resource, namespace, fmt.Sprintf("a pod or claim %s/%s", namespace, object)); unknown != nil {
			return fmt.Errorf("%w; name one that you may read as NAMESPACE/NAME, or give its namespace with -n", unknown)
		}
	}
	return fmt.Errorf("there is no pod %[1]s/%[2]s and no claim of that name; "+
		"name it as NAMESPACE/NAME, or give its namespace with -n", namespace, object)
}

// explainClaim explains a claim, by a pod that uses it if there is one.
func (o *options) explainClaim(ctx context.Context, facts *devicefacts.Facts, claim *resourceapi.ResourceClaim) error {
	s := facts.Snapshot()
	known := facts.Claim(claim.Namespace, claim.Name)
	for _, pod := range facts.PodsOf(known) {
		return o.explainPod(ctx, facts, pod)
	}
	if claim.Status.Allocation != nil {
		out := explainOutput{TypeMeta: kindOf("Explanation"), Why: why(facts, []*resourceapi.ResourceClaim{claim})}
		if done, err := o.structured(out); done {
			return err
		}
		o.say("Claim %s is allocated. %s it.", whatif.Key(claim), noPodUses(s, claim))
		o.printWhy(out.Why)
		return nil
	}
	if o.output == "" || o.output == "wide" {
		o.wrapped("", fmt.Sprintf("%s claim %s. It is allocated once a pod with it gets a node. For a pod with this claim only:", noPodUses(s, claim), whatif.Key(claim)))
	}
	reference := v1.PodResourceClaim{Name: "claim", ResourceClaimName: &claim.Name}
	return o.explainWaiting(ctx, facts, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: "a-pod-with-" + claim.Name},
		Spec:       v1.PodSpec{ResourceClaims: []v1.PodResourceClaim{reference}},
	})
}

// noPodUses returns the start of a sentence about a claim without a known pod.
func noPodUses(s *whatif.Snapshot, claim *resourceapi.ResourceClaim) string {
	if s.Absent("pods", claim.Namespace, "a pod") != nil {
		return "You may not read pods: some may use"
	}
	return "No pod uses"
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
		o.say("%s", noDevices(facts.Snapshot(), pod))
	}
	o.printWhy(out.Why)
	return nil
}

// noDevices returns the answer for a pod without known devices.
func noDevices(s *whatif.Snapshot, pod *v1.Pod) string {
	asks := len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil
	switch {
	case asks && s.Absent("resourceclaims.resource.k8s.io", pod.Namespace, "its claims") != nil:
		return "Which devices it has is not known: resourceclaims may not be read."
	case asks:
		return "Its claims have no devices."
	}
	return "It has no claims for devices."
}

func (o *options) explainWaiting(ctx context.Context, facts *devicefacts.Facts, pod *v1.Pod) error {
	s := facts.Snapshot()
	explanation, err := s.Explain(ctx, pod)
	if err != nil {
		return err
	}
	around, err := o.readAround(ctx, pod, len(pod.Spec.ResourceClaims) > len(pod.Status.ResourceClaimStatuses))
	if err != nil {
		return err
	}
	out := explainOutput{TypeMeta: kindOf("Explanation"), Said: said(pod), Held: heldFor(s, pod), WaitsFor: waitsFor(s, pod, &around), Explanation: devicefacts.Explained(explanation)}
	if near := nearestInFull(explanation); near != nil {
		out.RuledOut = ruledOut(facts, pod, near.explanation)
	}
	if out.Victims, err = victims(ctx, s, pod, explanation); err != nil {
		return err
	}
	out.NeverPreempts = !podutil.Preempts(pod)
	done, err := o.structured(out)
	if err != nil {
		return err
	}
	if !done {
		o.printWaiting(s, explanation, &out)
	}
	if explanation.NotKnown != "" {
		return statusError{ExitCannotTell}
	}
	return nil
}

// said returns the scheduler's message about a pod.
func said(pod *v1.Pod) string {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodScheduled && c.Status != v1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// victims returns the pods with lower priority that would have to end to make room on the nearest nodes, even if the
// pod's preemptionPolicy forbids preemption.
func victims(ctx context.Context, s *whatif.Snapshot, pod *v1.Pod, e *whatif.Explanation) ([]victimsOutput, error) {
	preempts := pod.DeepCopy()
	preempts.Spec.PreemptionPolicy = nil
	var all []victimsOutput
	for i := range e.Nearest {
		found, possible, err := s.PossibleVictims(ctx, preempts, e.Nearest[i].Node)
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

// onePod checks that there is exactly one argument.
func onePod(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return errors.New("name the pod or claim to explain: kubectl devices explain NAME, NAMESPACE/NAME or claim/NAME")
	case 1:
		return nil
	}
	return fmt.Errorf("name one pod or claim, not %d: %s", len(args), strings.Join(args, " "))
}
