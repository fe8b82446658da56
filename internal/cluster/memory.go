package cluster

import (
	"sync"

	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/internal/memo"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// looksShare is the fraction (1/looksShare) of the memory that is used for selector.Looks.
const looksShare = 64

// Memory is the shared cache of evaluators, with a common limit in bytes.
type Memory struct {
	findings *memo.Memory
	looks    *selector.Looks

	mutex sync.Mutex
	bytes int64
}

func newMemory() *Memory { return &Memory{findings: memo.New(0), looks: selector.NewLooks(0)} }

// NewEvaluator returns an evaluator for expressions of v1 and of the other languages.
func (m *Memory) NewEvaluator(features cel.Features, others ...selector.Language) *selector.Evaluator {
	evaluator := selector.NewEvaluator(selector.NewCompiler(features), others...)
	evaluator.RememberIn(m.findings)
	evaluator.RememberPrograms(new(selector.Programs))
	evaluator.RememberLooks(m.looks)
	return evaluator
}

// Bound raises the limit of the cache to the given bytes. It never lowers it.
func (m *Memory) Bound(bytes int64) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if bytes <= m.bytes {
		return
	}
	m.bytes = bytes
	m.looks.SetBound(int(bytes / looksShare))
	m.findings.SetBound(int(bytes - bytes/looksShare))
}
