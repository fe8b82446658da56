package devicescmd

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/internal/devicefacts"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// groupsAtMost is how many groups of nodes are printed, unless all are asked for with -o wide.
const groupsAtMost = 8

// printWaiting prints why a pod waits.
func (o *options) printWaiting(facts *devicefacts.Facts, pod *v1.Pod, out *explainOutput) {
	e := out.Explanation
	o.say("Pod %s waits for a node.", e.Pod)
	if out.Said != "" {
		o.wrapped("  ", "The scheduler says: "+out.Said)
	}
	if e.Problem != "" {
		o.wrapped("  ", "No node will do: "+e.Problem)
		return
	}
	if len(e.Fits) > 0 {
		o.wrapped("", fmt.Sprintf("It fits on %s (%s), and should be scheduled with the next attempt, unless something else is in the way%s.",
			plural(len(e.Fits), "node"), few(e.Fits), uncheckedInWords(e.Unchecked)))
	}
	o.printGroups(e)
	if example := firstExample(e); example != nil && example.Example != nil {
		o.say("")
		o.heading("In full, on %s", example.Nodes[0])
		o.indented(example.Example.String())
	}
	o.printNearest(facts, pod, out)
}

func uncheckedInWords(unchecked []string) string {
	if len(unchecked) == 0 {
		return ""
	}
	return "; not looked at: " + strings.Join(unchecked, ", ")
}

// printGroups prints nodes by what is in the way.
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

// firstExample is the largest group for which devices are in the way.
func firstExample(e *whatif.Explanation) *whatif.Group {
	for i := range e.Groups {
		if e.Groups[i].Example != nil {
			return &e.Groups[i]
		}
	}
	return nil
}

// printNearest prints the nodes that lack the least, and who could go there.
func (o *options) printNearest(facts *devicefacts.Facts, pod *v1.Pod, out *explainOutput) {
	if len(out.Explanation.Nearest) == 0 {
		return
	}
	o.say("")
	o.heading("Nearest")
	for i := range out.Explanation.Nearest {
		near := &out.Explanation.Nearest[i]
		o.say("  %s lacks", near.Node)
		for _, lacking := range near.Lacking {
			o.wrapped("    ", lacking)
		}
		for _, v := range out.Victims {
			if v.Node == near.Node {
				o.say("    preemption could evict %s", strings.Join(v.Pods, ", "))
			}
		}
	}
	if len(out.Victims) == 0 {
		o.say("  Preemption cannot help there: no pods of lower priority hold what is lacking.")
	}
}

// indented prints a text of several lines.
func (o *options) indented(text string) {
	for line := range strings.Lines(strings.TrimSuffix(text, "\n")) {
		o.say("  %s", strings.TrimSuffix(line, "\n"))
	}
}

// lineWidth is how wide texts are that are wrapped.
const lineWidth = 80

// wrapped prints a text in lines that fit.
func (o *options) wrapped(indent, text string) {
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line) > len(indent) && len(line)+len(word) >= lineWidth {
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
