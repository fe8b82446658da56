package search

import "context"

// Answer says whether one more pod fits on a node.
type Answer int8

const (
	// No means that the pod does not fit as long as the pods added before stay where they are.
	No Answer = iota
	// Yes means that the pod fits.
	Yes
	// Unknown means that the Judge could not tell. It counts as No, but a search without a result has given up then.
	Unknown
)

// A Judge decides what fits. Its state is the list of pods that were added.
type Judge interface {
	// Add adds one more pod of a class to a node if it fits there beside all pods that were added before. It
	// changes nothing unless it answers Yes.
	Add(class, node int) Answer
	// Remove removes the pod that was added last.
	Remove()
}

// A Class is a number of interchangeable pods: on no node does it matter which of them is there.
type Class struct {
	// Pods is the number of pods to place.
	Pods int
	// Ordered is set if the order of placement matters, or where other pods are: if one more pod on some node can
	// make room for another one. Inter-pod affinity and topology spread constraints do that.
	Ordered bool
}

// A Problem is the input of Search.
type Problem struct {
	Classes []Class
	// Nodes are the candidates, the most preferred first, as the numbers that the Judge knows.
	Nodes []int
	// Rounds are the positions in Nodes where a round begins, except the first round, ascending. Within a round Ordered
	// pods are likely to fit one after the other. nil stands for one round.
	Rounds []int
	// Need is the minimum number of pods to place, of all classes together. Search places as many more as it
	// can without backtracking for them.
	Need int
	// Apart is set if a pod added to one node changes nothing on all others. No class may be Ordered then.
	Apart bool
	// Steps limits the calls of Judge.Add in a search that is not Apart; after that it gives up. If any class is
	// Ordered, the search may use Steps twice.
	Steps int
}

// pods returns the total number of pods.
func (p *Problem) pods() (n int) {
	for _, class := range p.Classes {
		n += class.Pods
	}
	return n
}

// A Assignment is a pod of a class on a node.
type Assignment struct{ Class, Node int }

// Result is the output of Search.
type Result struct {
	// Assignments holds the placed pods, in the order in which they were added to the Judge. If the gang does not fit,
	// Assignments is nil and the Judge holds no pods.
	Assignments []Assignment
	// GaveUp is set if the gang may fit although Search found no way: it ran out of steps, or the Judge could not
	// answer.
	GaveUp bool
	// Most is the number of pods by class in the best placement that Search has seen.
	Most []int
}

// Fits reports whether the gang fits.
func (r *Result) Fits() bool { return r.Assignments != nil }

// Search looks for nodes for the pods. If the context ends, it gives up.
func Search(ctx context.Context, p Problem, judge Judge) Result {
	if p.Apart {
		return newCounting(ctx, p, judge).search()
	}
	return newChain(ctx, p, judge).search()
}

func sum(counts []int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

// Most returns the largest number up to most that fits, 0 if not even 1 does. If a number does not fit, no larger one
// may. A correct guess takes two calls of fits.
func Most(guess, most int, fits func(int) bool) int {
	fitting, tooMuch := 0, most+1
	for n := max(guess, 1); fitting+1 < tooMuch; {
		n = min(max(n, fitting+1), tooMuch-1)
		if fits(n) {
			fitting = n
		} else {
			tooMuch = n
		}
		switch {
		case n == guess && fitting == n:
			n++
		case tooMuch > most:
			n = 2 * max(fitting, 1)
		default:
			n = (fitting + tooMuch) / 2
		}
	}
	return fitting
}
