package whatif

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// FitOn is Fit for one pod on one node.
func (s *Snapshot) FitOn(ctx context.Context, pod *v1.Pod, node string) (*Answer, error) {
	pod = stored(pod)
	answer := &Answer{Verdict: DoesNotFit, Unplaced: pod, After: s, Unchecked: unchecked(pod)}
	n := s.nodes.get(node)
	if n == nil {
		return answer, nil
	}
	q := s.ask(pod)
	if q.problem != nil {
		return answer, nil
	}
	i, known := s.world.index[node]
	if !known {
		i = -1
	}
	if !s.mayRun(q, i, n) {
		return answer, nil
	}
	v, err := s.devices(ctx, q, i, n)
	if err != nil {
		return nil, err
	}
	if v == gaveUp {
		answer.Verdict, answer.Doubts = CannotTell, doubts(1)
	}
	if v != suffices {
		return answer, nil
	}
	plan, after, err := s.carryOut(ctx, q, choice{node: n, place: i})
	if err != nil {
		return nil, err
	}
	return &Answer{Verdict: Fits, Plans: []Plan{*plan}, After: after, Unchecked: answer.Unchecked}, nil
}
