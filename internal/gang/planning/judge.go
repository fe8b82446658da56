package planning

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/internal/gang"
	"github.com/quartermaster-dra/quartermaster/internal/gang/others"
	"github.com/quartermaster-dra/quartermaster/internal/gang/trial"
)

// Why nodes are refused before other plugins are asked.
const (
	noDevices = "devices are missing"
	notUsable = "node(s) cannot use what the claims of the pod are allocated already"
)

// judge is a trial that notes on which nodes no other plugin was asked.
type judge struct {
	*trial.Trial
	rest *witness
	// claims has for each class the first one with claims like its own.
	claims []int
	// lacking are nodes without devices for such claims. More pods elsewhere do not change that if the trial is Apart, and
	// with more pods on the node there are no more devices.
	lacking map[lack]bool
}

type lack struct{ claims, node int }

// witness notices when other plugins are asked.
type witness struct {
	*others.Others
	asked bool
}

// Add implements trial.Others.
func (w *witness) Add(class, node int, pod *v1.Pod) gang.Answer {
	w.asked = true
	return w.Others.Add(class, node, pod)
}

func newJudge(ctx context.Context, rest *others.Others, world trial.World, classes []*class) *judge {
	j := &judge{rest: &witness{Others: rest}, lacking: make(map[lack]bool)}
	first := make(map[string]int)
	for i, c := range classes {
		claims := c.members[0].Claims
		if _, found := first[claims]; !found {
			first[claims] = i
		}
		j.claims = append(j.claims, first[claims])
	}
	world.Others = j.rest
	j.Trial = trial.New(ctx, world)
	return j
}

// Add implements gang.Judge.
func (j *judge) Add(class, node int) gang.Answer {
	where := lack{j.claims[class], node}
	if j.lacking[where] {
		j.rest.Note(class, node, noDevices)
		return gang.No
	}
	j.rest.asked = false
	answer := j.Trial.Add(class, node)
	switch {
	case answer == gang.Yes || j.rest.asked:
	case !j.isUsable(class, node):
		j.rest.Note(class, node, notUsable)
	default:
		j.rest.Note(class, node, noDevices)
		if answer == gang.No && j.Apart() && !j.rest.Has(node) {
			j.lacking[where] = true
		}
	}
	return answer
}

// isUsable reports whether a node can use what the claims of a class are allocated already.
func (j *judge) isUsable(class, node int) bool {
	usable := j.Classes[class][0].Usable
	return usable == nil || usable(j.Nodes[node])
}
