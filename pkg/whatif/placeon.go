package whatif

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// FitOn is Fit for one pod on one node.
func (s *Snapshot) FitOn(ctx context.Context, pod *v1.Pod, node string) (*Answer, error) {
	pod = stored(pod)
	if err := s.check(pod); err != nil {
		return nil, err
	}
	answer := &Answer{Verdict: DoesNotFit, Unplaced: pod, After: s, Unchecked: unchecked(pod)}
	if n := s.nodes.get(node); n != nil {
		if err := s.fitOn(ctx, s.ask(pod), n, answer); err != nil {
			return nil, err
		}
	}
	answer.doubt(s.missing)
	return answer, nil
}

// fitOn completes an answer that says no.
func (s *Snapshot) fitOn(ctx context.Context, q *question, node *v1.Node, answer *Answer) error {
	i, known := s.world.index[node.Name]
	if !known {
		i = -1
	}
	if q.problem != nil || !s.mayRun(q, i, node) {
		return nil
	}
	v, err := s.devices(ctx, q, i, node)
	if err != nil {
		return err
	}
	if v == gaveUp || v == gaveUpInCommon {
		answer.Verdict, answer.Doubts = CannotTell, doubts(1)
	}
	if v != suffices {
		return nil
	}
	plan, after, err := s.carryOut(ctx, q, choice{node: node, place: i})
	if err != nil {
		return err
	}
	answer.Verdict, answer.Plans, answer.After, answer.Unplaced = Fits, []Plan{*plan}, after, nil
	return nil
}
