package filters

import (
	"github.com/quartermaster-dra/quartermaster/internal/gang/search"
)

// Room returns how many pods of a class a node takes without other pods of the gang, up to most. Others must hold no
// pods. Room ignores topology spread constraints. A correct guess saves time.
func (o *Others) Room(class, node, guess, most int) int {
	c := o.classes[class]
	if answer, _ := o.ask(class, node, o.nodes[node]); answer != search.Yes {
		return 0
	}
	return 1 + search.Most(guess-1, most-1, func(before int) bool {
		info := o.nodes[node].Snapshot()
		told := 0
		for told < before {
			info.AddPodInfo(c.pod)
			if !o.run.RunPreFilterExtensionAddPod(o.ctx, c.state, c.pod.GetPod(), c.pod, info).IsSuccess() {
				break
			}
			told++
		}
		answer, _ := o.ask(class, node, info)
		for range told {
			o.forget(o.classes[class:class+1], c.pod, info)
		}
		return told == before && answer == search.Yes
	})
}
