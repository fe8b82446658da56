package planning

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/devices"
	"github.com/quartermaster-dra/quartermaster/internal/gang/filters"
	"github.com/quartermaster-dra/quartermaster/internal/gang/search"
)

// Reasons for which a node is rejected before other plugins are asked.
const (
	noDevices = "devices are missing"
	notUsable = "node(s) cannot use the devices that claims of the pod already have"
)

// A judge is a trial that also notes reasons for nodes where no other plugin was asked.
type judge struct {
	*devices.Trial
	rest *witness
	// claims holds, by class, the first class with the same Claims.
	claims []int
	// lacking holds the nodes without devices for such claims. More pods elsewhere do not change that if the trial is
	// Apart, and more pods on the node leave no more devices.
	lacking map[lack]bool
	// lackingNow is the same for nodes that have pods of the gang, with the value of removed: fewer pods there may leave more devices.
	lackingNow map[lack]int
	removed    int
	// asks is that of the attempt. Without any left, no answer is known.
	asks *int
}

type lack struct{ claims, node int }

// A witness notices whether other plugins are asked.
type witness struct {
	*filters.Others
	asked bool
}

// Add implements devices.Others.
func (w *witness) Add(class, node int, pod *v1.Pod) search.Answer {
	w.asked = true
	return w.Others.Add(class, node, pod)
}

// Refuse implements devices.Books.
func (w *witness) Refuse(class, node int, why string) {
	w.asked = true
	w.Note(class, node, why)
}

func newJudge(ctx context.Context, rest *filters.Others, world devices.World, classes []*class, asks *int) *judge {
	j := &judge{rest: &witness{Others: rest}, lacking: make(map[lack]bool), lackingNow: make(map[lack]int), asks: asks}
	first := make(map[string]int)
	for i, c := range classes {
		claims := c.members[0].Claims
		if _, found := first[claims]; !found {
			first[claims] = i
		}
		j.claims = append(j.claims, first[claims])
	}
	world.Others = j.rest
	if accounts(classes) {
		world.Books = j.rest
	}
	j.Trial = devices.New(ctx, world)
	return j
}

// accounts reports whether devices may take resources of nodes.
func accounts(classes []*class) bool {
	return slices.ContainsFunc(classes, func(c *class) bool { return c.members[0].Account != nil })
}

// Add implements search.Judge.
func (j *judge) Add(class, node int) search.Answer {
	where := lack{j.claims[class], node}
	since, lacks := j.lackingNow[where]
	if j.lacking[where] || lacks && since == j.removed {
		j.rest.Note(class, node, noDevices)
		return search.No
	}
	if *j.asks--; *j.asks < 0 {
		return search.Unknown
	}
	j.rest.asked = false
	answer := j.Trial.Add(class, node)
	switch {
	case answer == search.Yes || j.rest.asked:
	case !j.isUsable(class, node):
		j.rest.Note(class, node, notUsable)
	default:
		j.rest.Note(class, node, noDevices)
		switch {
		case answer != search.No || !j.Apart():
		case j.rest.Has(node):
			j.lackingNow[where] = j.removed
		default:
			j.lacking[where] = true
		}
	}
	return answer
}

// Remove implements search.Judge.
func (j *judge) Remove() {
	j.removed++
	j.Trial.Remove()
}

// isUsable reports whether a node can use the existing allocations of a class's claims.
func (j *judge) isUsable(class, node int) bool {
	return j.Classes[class][0].UsableOn(j.Nodes[node])
}
