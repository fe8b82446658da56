package quartermaster

import (
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// compiledExpressions is how many compiled CEL expressions there may be besides those that
// are remembered within the bound of the memory: as many as in kube-scheduler. They are for
// the workers that meet a new expression at the same time.
const compiledExpressions = 10

// looksShare is the part of the memory, one in so many bytes, that is for what devices look
// like.
const looksShare = 64

// newEvaluator returns an evaluator for expressions of v1, and of the other languages.
func (s *clusterState) newEvaluator(features feature.Features, others ...selector.Language) *selector.Evaluator {
	evaluator := selector.NewEvaluator(cel.NewCache(compiledExpressions, celFeatures(features)), others...)
	evaluator.RememberIn(s.memory)
	evaluator.RememberPrograms()
	evaluator.RememberLooks(s.looks)
	return evaluator
}

// remember has all that is remembered take so many bytes, or as many as before if these are
// more.
func (s *clusterState) remember(bytes int64) {
	s.profilesMutex.Lock()
	defer s.profilesMutex.Unlock()
	if bytes <= s.remembered {
		return
	}
	s.remembered = bytes
	s.looks.SetBound(int(bytes / looksShare))
	s.memory.SetBound(int(bytes - bytes/looksShare))
}
