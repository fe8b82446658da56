package whatif

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// FitOn is Fit for one pod on one node.
func (s *Snapshot) FitOn(ctx context.Context, pod *v1.Pod, node string) (*Answer, error) {
	pod = stored(pod)
	q, on, v, err := s.judgeOn(ctx, pod, node)
	if err != nil {
		return nil, err
	}
	answer := &Answer{Verdict: v.asAnswer(), Unplaced: []*v1.Pod{pod}, After: s, Unchecked: unchecked(pod)}
	switch answer.Verdict {
	case CannotTell:
		answer.Doubts = doubts(1)
	case Fits:
		plan, after, err := s.carryOut(ctx, q, on)
		if err != nil {
			return nil, err
		}
		answer.Plans, answer.After, answer.Unplaced = []Plan{*plan}, after, nil
	}
	answer.doubt(s.missing)
	return answer, nil
}

// VerdictOn returns the verdict of FitOn without a plan, at a small part of the cost. It ignores
// objects that could not be read (Missing).
func (s *Snapshot) VerdictOn(ctx context.Context, pod *v1.Pod, node string) (Verdict, error) {
	_, _, v, err := s.judgeOn(ctx, stored(pod), node)
	if err != nil {
		return CannotTell, err
	}
	return v.asAnswer(), nil
}

// judgeOn judges one node for a pod. It returns neither a question nor a node if the node does not
// exist.
func (s *Snapshot) judgeOn(ctx context.Context, pod *v1.Pod, name string) (q *question, node *v1.Node, v verdict, err error) {
	if err := s.check(pod); err != nil {
		return nil, nil, unknown, err
	}
	if node = s.nodes.get(name); node == nil {
		return nil, nil, lacks, nil
	}
	q = s.ask(pod)
	position := s.world.positionOf(name)
	if q.problem != nil || !s.mayRun(q, position, node) {
		return q, node, lacks, nil
	}
	v, err = s.devices(ctx, q, position, node)
	return q, node, v, err
}
