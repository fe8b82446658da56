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
}

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

func newJudge(ctx context.Context, rest *others.Others, world trial.World) *judge {
	j := &judge{rest: &witness{Others: rest}}
	world.Others = j.rest
	j.Trial = trial.New(ctx, world)
	return j
}

// Add implements gang.Judge.
func (j *judge) Add(class, node int) gang.Answer {
	j.rest.asked = false
	answer := j.Trial.Add(class, node)
	if answer != gang.Yes && !j.rest.asked {
		why := noDevices
		if usable := j.Classes[class][0].Usable; usable != nil && !usable(j.Nodes[node]) {
			why = notUsable
		}
		j.rest.Note(class, node, why)
	}
	return answer
}
