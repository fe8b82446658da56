package whatif

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// VerdictOn is the verdict of FitOn, without a plan: it costs a small part of it. What could not be read (Missing) is of
// no concern to it.
func (s *Snapshot) VerdictOn(ctx context.Context, pod *v1.Pod, node string) (Verdict, error) {
	n, pod := s.nodes.get(node), stored(pod)
	if err := s.check(pod); err != nil || n == nil {
		return DoesNotFit, err
	}
	i, known := s.world.index[node]
	if !known {
		i = -1
	}
	q := s.ask(pod)
	if q.problem != nil || !s.mayRun(q, i, n) {
		return DoesNotFit, nil
	}
	switch v, err := s.devices(ctx, q, i, n); {
	case err != nil:
		return CannotTell, err
	case v == suffices:
		return Fits, nil
	case v == gaveUp || v == gaveUpInCommon:
		return CannotTell, nil
	}
	return DoesNotFit, nil
}
