package whatif

import (
	"hash/fnv"
	"strconv"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/memo"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// rememberedBytes bounds the cache of results of expressions.
const rememberedBytes = 64 << 20

// newEvaluator returns an evaluator with caches of its own, which are freed with the snapshot.
func newEvaluator() *selector.Evaluator {
	evaluator := selector.NewEvaluator(selector.NewCompiler(cel.Features{
		EnableConsumableCapacity: allocator.Supported.ConsumableCapacity, EnableListTypeAttributes: allocator.Supported.ListTypeAttributes,
	}), api.NewLanguage())
	evaluator.RememberIn(memo.New(rememberedBytes))
	evaluator.RememberPrograms(new(selector.Programs))
	evaluator.RememberLooks(selector.NewLooks(selector.DefaultLooks))
	return evaluator
}

// shareIDs returns a generator of IDs for shares (KEP-5075). They look like UUIDs but need only be
// unique, because the plans are never written.
func shareIDs(seed uint64) func() types.UID {
	var count atomic.Uint64
	return func() types.UID {
		return shareID(strconv.FormatUint(seed, 16) + "/" + strconv.FormatUint(count.Add(1), 16))
	}
}

func shareID(of string) types.UID {
	hash := fnv.New64a()
	hash.Write([]byte(of))
	digits := strconv.FormatUint(hash.Sum64()|1<<63, 16)
	return types.UID("00000000-0000-4000-" + digits[:4] + "-" + digits[4:])
}
