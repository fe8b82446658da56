package whatif

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"

	"k8s.io/utils/lru"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// verdict is what is known about the devices of a node for a task.
type verdict uint32

const (
	unknown verdict = iota
	suffices
	lacks
	// gaveUp is the verdict of a search that ran out of its budget.
	gaveUp
	// gaveUpInCommon is that of one that ran out of what it had in common with others. It is not remembered.
	gaveUpInCommon
)

// asAnswer is what the verdict about a node means for who asked about that node.
func (v verdict) asAnswer() Verdict {
	switch v {
	case suffices:
		return Fits
	case gaveUp, gaveUpInCommon:
		return CannotTell
	}
	return DoesNotFit
}

// rememberedTasks is how many different questions are remembered. Each takes four bytes for each node.
const rememberedTasks = 256

// memory has what was found out about the nodes of a world, for tasks by a digest of their key, which can be long. The zero value is empty.
type memory struct {
	once  sync.Once
	tasks *lru.Cache
	mutex sync.Mutex
}

// findings are the verdicts about one task, by place of the node.
type findings []atomic.Uint32

// of returns the findings about a task for so many nodes.
func (m *memory) of(task *allocator.Task, nodes int) findings {
	key := sha256.Sum256(task.AppendKey(nil))
	m.once.Do(func() { m.tasks = lru.New(rememberedTasks) })
	if known, found := m.tasks.Get(key); found {
		return known.(findings)
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if known, found := m.tasks.Get(key); found {
		return known.(findings)
	}
	f := make(findings, nodes)
	m.tasks.Add(key, f)
	return f
}

func (f findings) at(i int) verdict     { return verdict(f[i].Load()) }
func (f findings) put(i int, v verdict) { f[i].Store(uint32(v)) }
