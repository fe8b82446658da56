package kubectl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	devicefacts "github.com/quartermaster-dra/quartermaster/internal/kubectl/facts"
	"github.com/quartermaster-dra/quartermaster/internal/kubectl/files"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// fitting holds the flags of fit.
type fitting struct {
	files    []string
	with     string
	without  []string
	replicas int
	// copies is the number of copies of the objects in --with.
	copies int
}

// fitOutput is the JSON of fit.
type fitOutput struct {
	metav1.TypeMeta `json:",inline"`
	Verdict         whatif.Verdict   `json:"verdict"`
	Asked           int              `json:"asked"`
	Plans           []planOutput     `json:"plans,omitempty"`
	Unplaced        []unplacedOutput `json:"unplaced,omitempty"`
	Doubts          []string         `json:"doubts,omitempty"`
	Unchecked       []string         `json:"unchecked,omitempty"`
}

// unplacedOutput says why pods with the same requirements have no node.
type unplacedOutput struct {
	Pods []string `json:"pods"`
	// Problem is set if no node fits.
	Problem string `json:"problem,omitempty"`
	// Groups are nodes by obstacle, and Nearest the nodes that lack the least.
	Groups  []devicefacts.NodeGroup `json:"groups,omitempty"`
	Nearest []whatif.Near           `json:"nearest,omitempty"`

	explanation *whatif.Explanation
}

// unplacedOutputOf describes why a pod has no node.
func unplacedOutputOf(pod *v1.Pod, e *whatif.Explanation) unplacedOutput {
	u := unplacedOutput{Pods: []string{whatif.Key(pod)}, Nearest: e.Nearest, explanation: e}
	if e.Problem != "" {
		u.Problem = "No node is suitable: " + e.Problem
	}
	for i := range e.Groups {
		u.Groups = append(u.Groups, devicefacts.NodeGroup{Kind: e.Groups[i].Kind, Reason: e.Groups[i].Reason, Nodes: e.Groups[i].Nodes})
	}
	return u
}

// planOutput is the node and the devices that a pod would get.
type planOutput struct {
	Pod     string   `json:"pod"`
	Node    string   `json:"node"`
	Devices []string `json:"devices,omitempty"`
}

func newFit(o *options) *cobra.Command {
	f := &fitting{}
	command := &cobra.Command{
		Use:   "fit -f FILE",
		Short: "Show whether pods would fit, on which nodes, and how many",
		Long: `Show whether the pods of a file would fit, on which nodes, and how many of them. Pods are tried one after the other,
like a scheduler does: by priority, then in the order of the file. Nothing is created.

The file contains pods, or objects that create pods: Deployments, ReplicaSets, StatefulSets, Jobs, CronJobs,
JobSets, LeaderWorkerSets, and DaemonSets with a pod for each suitable node. It may also contain the claims,
templates and classes that the pods use, and PodGroups. The claims of a PodGroup count once, and a gang must start
whole. If the file has no pods, one pod is assumed for each claim and template. An API server would have to accept
the file. Other kinds that create pods are refused.

The answer considers devices, CPU, memory and other resources of nodes, taints, node selectors and node affinity.
Requirements that it does not consider are listed on standard error.

Exit status: 0 if all pods fit, 1 if some do not, 2 if it is not known: for lack of rights, or because a search gave up.`,
		Example: `  # Would it fit now?
  kubectl devices fit -f job.yaml

  # How many would fit with one more node and without one pod?
  kubectl devices fit -f pod.yaml --replicas 100 --with node.yaml --without pod/old`,
		Args: noArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.fit(command.Context(), f) },
	}
	command.Flags().StringArrayVarP(&f.files, "filename", "f", nil, "File with the pods, in YAML or JSON; - is standard input. Can be repeated")
	command.Flags().IntVar(&f.replicas, "replicas", 0, "Number of each pod, instead of the number in the file")
	command.Flags().StringArrayVar(&f.without, "without", nil, "Assume that a claim, pod or node is gone: claim/NAME, pod/NAME or node/NAME. Can be repeated")
	command.Flags().StringVar(&f.with, "with", "", "Assume that the objects of a file exist, such as nodes and ResourceSlices of planned hardware")
	command.Flags().IntVar(&f.copies, "with-copies", 1, "Number of copies of the nodes in --with, with their slices")
	return command
}

func (o *options) fit(ctx context.Context, f *fitting) error {
	if len(f.files) == 0 {
		return errors.New("no file was given; name the file with the pods: kubectl devices fit -f FILE, or - for standard input")
	}
	asked := &files.File{}
	for _, name := range f.files {
		more, err := o.readManifest(name)
		if err != nil {
			return err
		}
		asked.Add(more)
	}
	s, err := o.world(ctx, f)
	if err != nil {
		return err
	}
	doubts, err := o.checkAdmin(ctx, asked)
	if err != nil {
		return err
	}
	pods, s, err := o.asked(asked, f.replicas, s)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return fmt.Errorf("%s has no pods, and no objects that create pods", strings.Join(f.files, ", "))
	}
	answer, waiting, err := fitGangs(ctx, asked, s, pods)
	if err != nil {
		return err
	}
	answer.Doubt(doubts...)
	out, err := fitOutputOf(ctx, answer, len(pods))
	if err != nil {
		return err
	}
	if len(waiting) > 0 && out.Verdict == whatif.Fits {
		out.Verdict = whatif.DoesNotFit
	}
	out.Unplaced = append(out.Unplaced, waiting...)
	if done, err := o.structured(out); err != nil {
		return err
	} else if !done {
		o.printFit(out)
	}
	switch out.Verdict {
	case whatif.DoesNotFit:
		return statusError{ExitNo}
	case whatif.CannotTell:
		return statusError{ExitCannotTell}
	}
	return nil
}

// world returns the cluster with the changes of --with and --without.
func (o *options) world(ctx context.Context, f *fitting) (*whatif.Snapshot, error) {
	s, err := o.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.sayMissing(s.Missing()); err != nil {
		return nil, err
	}
	if f.with != "" {
		more, err := o.readManifest(f.with)
		if err != nil {
			return nil, err
		}
		bought, err := files.Copies(more.Objects, f.copies, func(node string) bool { return s.Node(node) != nil })
		if err != nil {
			return nil, fmt.Errorf("--with %s: %w", f.with, err)
		}
		s = s.With(bought)
	}
	gone, err := o.removal(f.without)
	if err != nil {
		return nil, err
	}
	return s.Without(gone)
}

func fitOutputOf(ctx context.Context, answer *whatif.Answer, asked int) (*fitOutput, error) {
	out := &fitOutput{
		TypeMeta: kindOf("Fit"), Verdict: answer.Verdict, Asked: asked, Doubts: answer.Doubts, Unchecked: answer.Unchecked,
	}
	for i := range answer.Plans {
		plan := &answer.Plans[i]
		p := planOutput{Pod: whatif.Key(plan.Pod), Node: plan.Node}
		for _, claim := range plan.Claims {
			p.Devices = append(p.Devices, devicesOf(claim)...)
		}
		out.Plans = append(out.Plans, p)
	}
	var first *v1.Pod
	for _, pod := range answer.Unplaced {
		if first != nil && whatif.Alike(first, pod) {
			last := &out.Unplaced[len(out.Unplaced)-1]
			last.Pods = append(last.Pods, whatif.Key(pod))
			continue
		}
		explanation, err := answer.After.Explain(ctx, pod)
		if err != nil {
			return nil, err
		}
		out.Unplaced, first = append(out.Unplaced, unplacedOutputOf(pod, explanation)), pod
	}
	return out, nil
}

// plansAtMost bounds the plans that are printed one by one without -o wide.
const plansAtMost = 10

func (o *options) printFit(out *fitOutput) {
	for _, what := range out.Unchecked {
		fmt.Fprintf(o.ErrOut, "note: not looked at: %s\n", what)
	}
	switch {
	case len(out.Unplaced) == 0 && out.Asked == 1:
		o.say("It fits.")
	case len(out.Unplaced) == 0:
		o.say("All %d pods fit.", out.Asked)
	default:
		o.say("%d of %s fit.", len(out.Plans), plural(out.Asked, "pod"))
	}
	if out.Verdict == whatif.CannotTell {
		for _, doubt := range out.Doubts {
			o.wrapped("  ", "This may be wrong: "+doubt)
		}
	}
	o.printPlans(out)
	for i := range out.Unplaced {
		if i == unplacedAtMost && !o.wide() {
			o.say("")
			o.say("%s of other kinds do not fit either; -o wide explains them.", plural(podsIn(out.Unplaced[i:]), "pod"))
			return
		}
		o.printUnplaced(&out.Unplaced[i])
	}
}

// unplacedAtMost bounds the kinds of pods that are explained without -o wide.
const unplacedAtMost = 5

func podsIn(unplaced []unplacedOutput) int {
	pods := 0
	for i := range unplaced {
		pods += len(unplaced[i].Pods)
	}
	return pods
}

// printUnplaced prints why pods have no node.
func (o *options) printUnplaced(u *unplacedOutput) {
	o.say("")
	if len(u.Pods) == 1 {
		o.say("Pod %s does not.", u.Pods[0])
	} else {
		o.wrapped("", fmt.Sprintf("%d pods do not: %s", len(u.Pods), few(u.Pods)))
	}
	if u.Problem != "" {
		o.wrapped("  ", u.Problem)
		return
	}
	o.printGroups(u.explanation)
	for i := range u.Nearest {
		near := &u.Nearest[i]
		o.wrapped("  ", fmt.Sprintf("Nearest: %s lacks %s", near.Node, strings.Join(near.Lacking, "; ")))
	}
}

// printPlans prints where pods would go: one by one if there are few, otherwise by node.
func (o *options) printPlans(out *fitOutput) {
	if len(out.Plans) <= plansAtMost || o.wide() {
		for i := range out.Plans {
			p := &out.Plans[i]
			o.say("  %s on %s", p.Pod, p.Node)
			if len(p.Devices) > 0 {
				o.wrapped("    ", strings.Join(p.Devices, ", "))
			}
		}
		return
	}
	byNode := make(map[string]int)
	for i := range out.Plans {
		byNode[out.Plans[i].Node]++
	}
	byNumber := make(map[int][]string)
	for node, n := range byNode {
		byNumber[n] = append(byNumber[n], node)
	}
	var numbers []int
	for n := range byNumber {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range slices.Backward(numbers) {
		nodes := byNumber[n]
		slices.Sort(nodes)
		o.say("  %s on each of %s: %s", plural(n, "pod"), plural(len(nodes), "node"), few(nodes))
	}
}
