package whatif

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"

	"k8s.io/utils/lru"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// verdict is the known result for a task on the devices of a node.
type verdict uint32

const (
	unknown verdict = iota
	suffices
	lacks
	// gaveUp is the verdict of a search that ran out of its budget.
	gaveUp
	// gaveUpInCommon means that the steps shared with other nodes ran out. It is not cached.
	gaveUpInCommon
)

// asAnswer returns the Verdict for a question about only that node.
func (v verdict) asAnswer() Verdict {
	switch v {
	case suffices:
		return Fits
	case gaveUp, gaveUpInCommon:
		return CannotTell
	}
	return DoesNotFit
}

// rememberedTasks limits the number of different tasks in the cache. Each takes four bytes per
// node.
const rememberedTasks = 256

// memory caches verdicts about the nodes of a world, by task. Keys of tasks can be long, so it uses
// their digest. The zero value is empty.
type memory struct {
	once  sync.Once
	tasks *lru.Cache
	mutex sync.Mutex
}

// findings holds the verdicts for one task, by position of the node.
type findings []atomic.Uint32

// of returns the findings for a task on the given number of nodes.
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
