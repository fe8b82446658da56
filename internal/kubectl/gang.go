package kubectl

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl/files"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// fitGangs works like Fit, but leaves out gangs that cannot start: PodGroups of the file with fewer placed pods than
// must start together (KEP-4671). Their pods hold nothing, and the other pods are asked for without them.
func fitGangs(ctx context.Context, m *files.File, s *whatif.Snapshot, pods []*v1.Pod) (*whatif.Answer, []unplacedOutput, error) {
	var waiting []unplacedOutput
	for {
		answer, err := s.Fit(ctx, pods...)
		if err != nil {
			return nil, nil, err
		}
		gang, why := shortGang(m, s, answer)
		if gang == "" {
			return answer, waiting, nil
		}
		kept, out := []*v1.Pod(nil), unplacedOutput{Problem: why}
		for _, pod := range pods {
			if group := m.GroupOf(pod); group != nil && whatif.Key(group) == gang {
				out.Pods = append(out.Pods, whatif.Key(pod))
				continue
			}
			kept = append(kept, pod)
		}
		pods, waiting = kept, append(waiting, out)
	}
}

// shortGang returns a gang with too few placed pods, and what it lacks; "" if there is none.
func shortGang(m *files.File, s *whatif.Snapshot, answer *whatif.Answer) (gang, why string) {
	placed, asked := make(map[string]int), make(map[string]int)
	count := func(pod *v1.Pod, has bool) {
		if group := m.GroupOf(pod); group != nil {
			asked[whatif.Key(group)]++
			if has {
				placed[whatif.Key(group)]++
			}
		}
	}
	for i := range answer.Plans {
		count(answer.Plans[i].Pod, true)
	}
	for _, pod := range answer.Unplaced {
		count(pod, false)
	}
	for _, group := range m.Groups {
		key := whatif.Key(group)
		if group.Spec.SchedulingPolicy.Gang == nil || asked[key] == 0 {
			continue
		}
		running := 0
		for _, pod := range s.Pods() {
			if in := m.GroupOf(pod); in != nil && whatif.Key(in) == key && pod.Spec.NodeName != "" {
				running++
			}
		}
		if want := int(group.Spec.SchedulingPolicy.Gang.MinCount); placed[key]+running < want {
			return key, fmt.Sprintf("PodGroup %s starts with %s at the same time; %d are asked for, and %d have a place", key, plural(want, "pod"), asked[key]+running, placed[key]+running)
		}
	}
	return "", ""
}
