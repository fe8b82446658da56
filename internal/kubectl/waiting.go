package kubectl

import (
	"fmt"
	"strings"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// groupsAtMost bounds the groups of nodes that are printed without -o wide.
const groupsAtMost = 8

// printWaiting prints why a pod waits.
func (o *options) printWaiting(s *whatif.Snapshot, e *whatif.Explanation, out *explainOutput) {
	o.say("Pod %s waits for a node.", e.Pod)
	if out.Said != "" {
		o.wrapped("  ", "The scheduler says: "+out.Said)
	}
	if out.Held != "" {
		o.wrapped("  ", "The scheduler holds devices: "+out.Held+".")
	}
	for _, thing := range out.WaitsFor {
		o.wrapped("  ", "It waits: "+thing+".")
	}
	switch {
	case e.NotKnown != "":
		o.wrapped("  ", "Nothing can be said about nodes: "+e.NotKnown+".")
		return
	case e.Problem != "":
		o.wrapped("  ", "No node is suitable: "+e.Problem)
		return
	}
	o.printFits(e, out)
	o.printGroups(e)
	if near := nearestInFull(e); near != nil {
		o.say("")
		o.heading("In full, on %s", near.node)
		_, rest, _ := strings.Cut(near.text, "\n") // The first line repeats the reason.
		o.indented(rest)
		for _, text := range out.RuledOut {
			o.wrapped("  ", text)
		}
	}
	o.printNearest(s, out)
}

// printFits prints the nodes on which a pod fits, and the assumptions of that answer.
func (o *options) printFits(e *whatif.Explanation, out *explainOutput) {
	if len(e.Fits) == 0 {
		return
	}
	text := fmt.Sprintf("It fits on %s (%s)", plural(len(e.Fits), "node"), few(e.Fits))
	if len(out.WaitsFor) == 0 {
		text += ", and should be scheduled with the next attempt, unless something else is in the way"
	} else {
		text += " once it no longer waits for that"
	}
	o.wrapped("", text+uncheckedInWords(e.Unchecked)+".")
	for _, doubt := range e.Doubts {
		o.wrapped("  ", "That may be wrong: "+doubt+".")
	}
}

// inFull is a node with its full explanation.
type inFull struct {
	node, text  string
	explanation *allocator.Explanation
}

// nearestInFull returns the nearest node, or else the first node of the largest group whose obstacle is devices; nil
// if there is none.
func nearestInFull(e *whatif.Explanation) *inFull {
	if len(e.Nearest) > 0 {
		near := &e.Nearest[0]
		return &inFull{near.Node, near.InFull, near.Explanation}
	}
	for i := range e.Groups {
		if group := &e.Groups[i]; group.Example != nil {
			return &inFull{group.Example.Node, group.InFull, group.Example}
		}
	}
	return nil
}

func uncheckedInWords(unchecked []string) string {
	if len(unchecked) == 0 {
		return ""
	}
	return "; not looked at: " + strings.Join(unchecked, ", ")
}

// printGroups prints nodes by obstacle.
func (o *options) printGroups(e *whatif.Explanation) {
	if len(e.Groups) == 0 {
		if len(e.Fits) == 0 {
			o.say("There are no nodes.")
		}
		return
	}
	nodes := 0
	for i := range e.Groups {
		nodes += len(e.Groups[i].Nodes)
	}
	o.say("")
	o.heading("What is in the way on %s", plural(nodes, "node"))
	for i := range e.Groups {
		if i == groupsAtMost && !o.wide() {
			o.say("  and %s; all of them with -o wide", plural(len(e.Groups)-i, "other reason"))
			break
		}
		g := &e.Groups[i]
		o.say("  %s (%s)", plural(len(g.Nodes), "node"), few(g.Nodes))
		o.wrapped("    ", g.Reason)
	}
}

// printNearest prints the nodes that lack the least, and their pods that preemption could evict.
func (o *options) printNearest(s *whatif.Snapshot, out *explainOutput) {
	if len(out.Explanation.Nearest) == 0 {
		return
	}
	o.say("")
	o.heading("Nearest")
	could := "preemption could evict"
	if out.NeverPreempts {
		could = "held by pods of lower priority:"
	}
	for i := range out.Explanation.Nearest {
		near := &out.Explanation.Nearest[i]
		o.say("  %s lacks", near.Node)
		for _, lacking := range near.Lacking {
			o.wrapped("    ", lacking)
		}
		for _, v := range out.Victims {
			if v.Node == near.Node {
				o.wrapped("    ", could+" "+few(v.Pods))
			}
		}
	}
	switch {
	case out.NeverPreempts:
		o.say("  The pod does not preempt: its preemptionPolicy is Never.")
	case len(out.Victims) > 0:
	case s.Absent("pods", "", "a pod") != nil:
		o.say("  Whether preemption can help there is not known: not all pods may be read.")
	default:
		o.say("  Preemption cannot help there: no pods of lower priority hold what is lacking.")
	}
}

// indented prints a text of several lines.
func (o *options) indented(text string) {
	for line := range strings.Lines(strings.TrimSuffix(text, "\n")) {
		o.say("  %s", strings.TrimSuffix(line, "\n"))
	}
}

// lineWidth is the width of wrapped text, except on terminals that are narrower.
const lineWidth = 80

// wrapped prints a text in lines.
func (o *options) wrapped(indent, text string) {
	width := lineWidth
	if o.screen.Terminal && o.screen.Width > 0 {
		width = min(width, o.screen.Width)
	}
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line) > len(indent) && len(line)+len(word) >= width {
			o.say("%s", line)
			line = indent
		}
		if len(line) > len(indent) {
			line += " "
		}
		line += word
	}
	o.say("%s", line)
}
