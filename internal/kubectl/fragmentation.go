package kubectl

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	devicefacts "github.com/quartermaster-dra/quartermaster/internal/kubectl/facts"
	"github.com/quartermaster-dra/quartermaster/internal/kubectl/screen"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// shapesAtMost bounds the shapes of claims that are counted without -o wide.
const shapesAtMost = 10

// fragmentationOutput is the JSON of fragmentation.
type fragmentationOutput struct {
	metav1.TypeMeta `json:",inline"`
	Classes         []devicefacts.Shape `json:"classes,omitempty"`
	Shapes          []devicefacts.Shape `json:"shapes,omitempty"`
	Pod             string              `json:"pod,omitempty"`
	Advice          *devicefacts.Advice `json:"advice,omitempty"`
	Missing         []whatif.Missing    `json:"missing,omitempty"`
}

func newFragmentation(o *options) *cobra.Command {
	file := ""
	command := &cobra.Command{
		Use:     "fragmentation",
		Aliases: []string{"frag"},
		Short:   "Count how many more claims fit, and find the pods to move for one that does not",
		Long: `Count how many more single devices of each class fit now, and how many more claims of each shape that exists. The
count considers devices only: no CPU, memory, taints of nodes or affinity.

With -f, find the fewest pods that would have to move to make room for a pod, and where each would go. It is advice:
nothing is moved. The search tries up to 3 pods of one node, or pods with devices that the node can use. It ignores
priorities and PodDisruptionBudgets. Pods of DaemonSets, static pods and pods that share a claim stay.

Exit status with -f: 0 if there is room or moves make room, 1 if not, 2 if the search gave up.`,
		Example: `  # How many more claims fit?
  kubectl devices fragmentation

  # Which pods would have to move for this one?
  kubectl devices fragmentation -f pod.yaml`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(command *cobra.Command, _ []string) error { return o.fragmentation(command.Context(), file) },
	}
	command.Flags().StringVarP(&file, "filename", "f", "", "File with a pod to make room for, in YAML or JSON; - is standard input")
	return command
}

// newWaste returns the command under its former name. It goes with the release after the first one.
func newWaste(o *options) *cobra.Command {
	command := newFragmentation(o)
	run := command.RunE
	command.Use, command.Aliases, command.Hidden = "waste", nil, true
	command.RunE = func(c *cobra.Command, args []string) error {
		fmt.Fprintln(o.ErrOut, "warning: kubectl devices waste is deprecated; use kubectl devices fragmentation")
		return run(c, args)
	}
	return command
}

func (o *options) fragmentation(ctx context.Context, file string) error {
	s, err := o.snapshot(ctx)
	if err != nil {
		return err
	}
	if err := o.sayMissing(s.Missing()); err != nil {
		return err
	}
	if file != "" {
		return o.rearrange(ctx, s, file)
	}
	return o.countFits(ctx, s)
}

// countFits prints how many more devices and claims fit.
func (o *options) countFits(ctx context.Context, s *whatif.Snapshot) error {
	if facts := devicefacts.Of(s); facts.DevicesUnknown() || facts.UsageUnknown() {
		o.say("What fits is not known: some resourceslices or resourceclaims could not be read.")
		return statusError{ExitCannotTell}
	}
	most := shapesAtMost
	if o.output != "" {
		most = len(s.Claims())
	}
	out := fragmentationOutput{TypeMeta: kindOf("Fragmentation"), Classes: devicefacts.Classes(s), Shapes: devicefacts.Seen(s, most), Missing: s.Missing()}
	if err := countFree(ctx, s, out.Classes); err != nil {
		return err
	}
	for _, shapes := range [][]devicefacts.Shape{out.Classes, out.Shapes} {
		for i := range shapes {
			if err := shapes[i].Count(ctx, s); err != nil {
				return err
			}
		}
	}
	if done, err := o.structured(out); done {
		return err
	}
	o.heading("How many more single devices fit, by class:")
	if err := o.printShapes("CLASS", out.Classes, false); err != nil || len(out.Shapes) == 0 {
		return err
	}
	o.say("")
	o.heading("How many more claims fit, like existing ones:")
	return o.printShapes("LIKE", out.Shapes, true)
}

// countFree counts the free devices of classes. If more are free than fit, some free devices cannot be used there, or
// not all at the same time.
func countFree(ctx context.Context, s *whatif.Snapshot, classes []devicefacts.Shape) error {
	facts := devicefacts.Of(s)
	for i, class := range s.Classes() {
		devices, _, err := facts.Select(ctx, devicefacts.Selection{Class: class})
		if err != nil {
			return err
		}
		free := 0
		for j := range devices {
			if devices[j].State == devicefacts.Free {
				free++
			}
		}
		classes[i].Free = &free
	}
	return nil
}

func (o *options) printShapes(title string, shapes []devicefacts.Shape, seen bool) error {
	table := screen.Table{Indent: 2, Columns: []screen.Column{
		{Name: title, Shrinks: true}, {Name: "SEEN", Right: true}, {Name: "FREE", Right: true}, {Name: "FIT", Right: true}, {Name: "NODES", Right: true}, {Name: "ASKS FOR", Shrinks: !o.wide(), Prose: true},
	}}
	for i := range shapes {
		shape := &shapes[i]
		row := screen.Text(shape.Name, "", "", fmt.Sprint(shape.More), fmt.Sprint(shape.Nodes), "")
		if shape.AtLeast {
			row[3].Text = fmt.Sprintf(">=%d", shape.More)
		}
		if shape.Free != nil {
			row[2].Text = fmt.Sprint(*shape.Free)
		}
		if seen {
			row[1].Text, row[5].Text = fmt.Sprint(shape.Seen), shape.AsksFor
		}
		table.Row(row...)
	}
	return table.Write(o.Out, o.screen)
}

// rearrange prints which pods must move to make room for another pod.
func (o *options) rearrange(ctx context.Context, s *whatif.Snapshot, file string) error {
	asked, err := o.readManifest(file)
	if err != nil {
		return err
	}
	pods, s, err := o.asked(asked, 1, s)
	if err != nil {
		return err
	}
	if len(pods) != 1 {
		return fmt.Errorf("%s has %s; give a file with one pod to make room for", file, plural(len(pods), "pod"))
	}
	advice, err := devicefacts.RoomFor(ctx, s, pods[0])
	if err != nil {
		return err
	}
	out := fragmentationOutput{TypeMeta: kindOf("Fragmentation"), Pod: whatif.Key(pods[0]), Advice: advice, Missing: s.Missing()}
	if done, err := o.structured(out); err != nil {
		return err
	} else if !done {
		o.printAdvice(&out)
	}
	switch {
	case advice.Fits || advice.Node != "":
		return nil
	case advice.Fewest:
		return statusError{ExitNo}
	}
	return statusError{ExitCannotTell}
}

func (o *options) printAdvice(out *fragmentationOutput) {
	advice := out.Advice
	switch {
	case advice.Fits:
		o.say("Pod %s fits on %s now.", out.Pod, advice.Node)
	case advice.Node == "" && advice.Fewest:
		o.say("Pod %s does not fit, and moving up to %d pods of one node does not help.", out.Pod, devicefacts.MovesAtMost)
	case advice.Node == "":
		o.say("Pod %s does not fit, and no moves that help were found before the search gave up.", out.Pod)
	default:
		o.say("Pod %s would fit on %s if %s moved:", out.Pod, advice.Node, plural(len(advice.Moves), "pod"))
		var moves []string
		for _, move := range advice.Moves {
			moves = append(moves, moveText(&move))
		}
		for _, move := range moves {
			o.say("%s", move)
		}
		if advice.Fewest {
			o.say("Fewer moves are not enough.")
		} else {
			o.say("Whether fewer moves are enough is not known: a search gave up.")
		}
	}
	if advice.Unmovable > 0 && advice.Node == "" {
		o.wrapped("", plural(advice.Unmovable, "pod")+" with devices cannot be moved: of a DaemonSet, static, ending, or with a claim that others use too.")
	}
}

// moveText describes the move of a pod. Without a controller, the user must recreate the pod.
func moveText(move *devicefacts.Move) string {
	text := fmt.Sprintf("  %s from %s to %s", move.Pod, move.From, move.To)
	if move.From == move.To {
		text = fmt.Sprintf("  %s again on %s, with other devices", move.Pod, move.From)
	}
	if move.Controller == "" {
		text += " (nothing creates it again)"
	}
	return text
}
