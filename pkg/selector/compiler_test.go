package selector

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/internal/memo"
)

// TestNothingIsKeptOfProgramsBesidesTheMemory: a tenant uses one regular expression after the other, and each
// takes megabytes when it is compiled.
func TestNothingIsKeptOfProgramsBesidesTheMemory(t *testing.T) {
	// Not parallel, because the test measures the heap.
	inUse := func() int {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	const bound = 1 << 20
	e := NewEvaluator(NewCompiler(cel.Features{}))
	e.RememberIn(memo.New(bound))
	e.RememberPrograms(new(Programs))
	e.compile("true") // The compiler is made when it is needed first.
	before := inUse()
	largest := 0
	for i := range 12 {
		p := e.compile(fmt.Sprintf("device.driver.matches('%d%s')", i, strings.Repeat("[a-f]{1000}", 30)))
		require.NoError(t, p.err)
		largest = max(largest, p.size)
	}
	require.Greater(t, largest, bound, "or there is nothing to see here")
	require.Less(t, inUse()-before, 2*bound)
	runtime.KeepAlive(e)
}

// TestCompiledOnce: an expression is compiled once even for concurrent callers.
func TestCompiledOnce(t *testing.T) {
	t.Parallel()
	language := &counted{}
	e := NewEvaluator(NewCompiler(cel.Features{}), language)
	e.RememberIn(memo.New(1 << 20))
	e.RememberPrograms(new(Programs))
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() { e.compile("once") })
	}
	all.Wait()
	require.Equal(t, 1, language.compiled)
}
