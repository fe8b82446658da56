package selector

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/internal/memo"
)

// counted counts how often expressions are compiled. All are in this language and broken.
type counted struct{ compiled int }

func (c *counted) Compile(expression string) (Program, bool, error) {
	c.compiled++
	return nil, true, fmt.Errorf("%s is broken", expression)
}

// TestBrokenExpressionsAreCompiledOnce, and not again for each slice.
func TestBrokenExpressionsAreCompiledOnce(t *testing.T) {
	t.Parallel()
	language := &counted{}
	e := NewEvaluator(cel.NewCache(1, cel.Features{}), language)
	e.RememberIn(memo.New(1 << 20))
	e.RememberPrograms(new(Programs))
	_, on := pools(t, 20, 2)
	set := aSet("nonsense")
	for _, pool := range on {
		selection, err := e.Select(t.Context(), pool, set)
		require.NoError(t, err)
		require.Equal(t, 2, selection.Failed.Len())
		require.ErrorContains(t, set.Error(pool, selection, 0), "nonsense is broken")
	}
	require.Equal(t, 1, language.compiled)
}

// TestEvaluatorsHaveTheirOwnPrograms: an evaluator may support a language that another does not.
func TestEvaluatorsHaveTheirOwnPrograms(t *testing.T) {
	t.Parallel()
	memory := memo.New(1 << 20)
	v1, broken := NewEvaluator(cel.NewCache(1, cel.Features{})), NewEvaluator(cel.NewCache(1, cel.Features{}), &counted{})
	for range 2 {
		for _, e := range []*Evaluator{v1, broken} {
			e.RememberIn(memory)
			if e.programs == nil {
				e.RememberPrograms(new(Programs))
			}
			require.Equal(t, e == v1, e.compile("true").err == nil)
		}
	}
}

// TestAnExpressionSelectsOrDerives: the same text can do both.
func TestAnExpressionSelectsOrDerives(t *testing.T) {
	t.Parallel()
	e := NewEvaluator(cel.NewCache(10, cel.Features{}))
	e.RememberIn(memo.New(1 << 20))
	e.RememberPrograms(new(Programs))
	const expression = `"text"`
	require.ErrorContains(t, e.compile(expression).err, "must evaluate to bool or the unknown type")
	require.NoError(t, e.compileDerived(expression).err)
	require.NotSame(t, e.compile(expression), e.compileDerived(expression))
	require.Same(t, e.compile(expression), e.compile(expression))
}

// TestProgramsTakeWhatIsCounted checks that compiled expressions take no more than the memory counts for them.
func TestProgramsTakeWhatIsCounted(t *testing.T) { //nolint:paralleltest // It measures the heap.
	const programs = 60
	kinds := map[string]func(i, length int) string{
		"texts": func(i, n int) string {
			return fmt.Sprintf(`device.attributes["gpu.example.com"].uuid in ["%d"`, i) + strings.Repeat(`, "abcdefgh"`, n) + "]"
		},
		"sums": func(i, n int) string { return fmt.Sprintf("%d", i) + strings.Repeat("+1", n) + " == 7" },
		"loops": func(i, n int) string {
			return fmt.Sprintf("[%d].exists(x, x == 1)", i) + strings.Repeat(" || [1].exists(x, x == 1)", n)
		},
	}
	for _, pattern := range []string{`\\pL`, `(\\pL{100})`, `^[a-z0-9]{1,20}$`} {
		kinds["patterns "+pattern] = func(i, n int) string {
			return fmt.Sprintf("device.driver.matches(\"%d%s\")", i, strings.Repeat(pattern, 1+n))
		}
	}
	for kind, write := range kinds {
		for _, length := range []int{0, 60} {
			memory := memo.New(1 << 30)
			e := NewEvaluator(cel.NewCache(1, cel.Features{}))
			e.RememberIn(memory)
			e.RememberPrograms(new(Programs))
			require.NoError(t, e.compile(write(programs, length)).err) // What all have in common.
			before, counted := heapBytes(), memory.Taken()
			for i := range programs {
				e.compile(write(i, length))
			}
			grown, counted := heapBytes()-before, memory.Taken()-counted
			require.LessOrEqual(t, grown, counted, "%s, %d", kind, length)
			require.Greater(t, grown, counted/4, "%s, %d: counted for far too much", kind, length)
			runtime.KeepAlive(e)
		}
	}
}
