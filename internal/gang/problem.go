package gang

import "context"

// Answer is whether one more pod fits on a node.
type Answer int8

const (
	// No means that it does not, as long as those that were added before stay where they are.
	No Answer = iota
	// Yes means that it does.
	Yes
	// Unknown means that it could not be found out. It counts as No, but a search that finds nothing has given up.
	Unknown
)

// Judge says what fits. It has a state: the pods that were added.
type Judge interface {
	// Add adds one more pod of a class to a node if it fits there beside all pods that were added before. It
	// changes nothing unless it answers Yes.
	Add(class, node int) Answer
	// Remove takes away the pod that was added last.
	Remove()
}

// Class is a number of pods that are alike: on no node does it matter which of them is there.
type Class struct {
	// Pods is how many of them are to be placed.
	Pods int
	// Ordered is set if it matters in which order they are placed, or where others are: if one more pod on some node
	// can make room for another one. Inter-pod affinity and topology spread constraints do that.
	Ordered bool
}

// Problem is what Search is asked.
type Problem struct {
	Classes []Class
	// Nodes are those to be tried, the most preferred first. They are the numbers that the Judge is asked about.
	Nodes []int
	// Rounds are the positions in Nodes where, after the first, another one of several rounds begins, ascending. Within a
	// round Ordered pods are likely to fit one after the other. nil stands for one round.
	Rounds []int
	// Need is how many pods have to be placed, of whichever class. Search places as many more as it can without
	// turning back for them.
	Need int
	// Apart is set if what is added to one node changes nothing on all others. No class may be Ordered then.
	Apart bool
	// Steps is how many pods may be added, again and again, before a search that is not Apart gives up. If any class is
	// Ordered, it may do so twice.
	Steps int
}

// pods is how many there are in all.
func (p *Problem) pods() (n int) {
	for _, class := range p.Classes {
		n += class.Pods
	}
	return n
}

// Seat is a pod of a class on a node.
type Seat struct{ Class, Node int }

// Result is the answer of Search.
type Result struct {
	// Seats has the pods that were placed, in the order in which they were added to the Judge, which has them all. It
	// is nil, and the Judge has none, unless the gang fits.
	Seats []Seat
	// GaveUp is set if the gang may fit although no way was found: the budget was used up, or the Judge could not
	// answer.
	GaveUp bool
	// Most has how many pods of each class were placed where as many as possible were, as far as was looked.
	Most []int
}

// Fits reports whether the gang fits.
func (r *Result) Fits() bool { return r.Seats != nil }

// MostPods is how many pods fit at the same time, as far as was looked.
func (r *Result) MostPods() int { return sum(r.Most) }

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
