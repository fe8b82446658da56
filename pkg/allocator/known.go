package allocator

import (
	"runtime"
	"sync"
	"weak"

	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// known caches the findings of the allocators that New returns: a *findings for each knownKey. It is the only state
// that they share. An entry is removed with its CEL cache, and its parts about slices are removed with these.
var known sync.Map

type findings struct {
	slices   *inventory.Known
	looks    *selector.Looks
	programs selector.Programs
}

// knownKey holds everything that findings about a slice depend on: the CEL cache that compiles expressions,
// and the supported parts of the API.
type knownKey struct {
	celCache weak.Pointer[cel.Cache]
	features structured.Features
}

func knownTo(celCache *cel.Cache, features structured.Features) *findings {
	key := knownKey{weak.Make(celCache), features}
	if found, is := known.Load(key); is {
		return found.(*findings)
	}
	found, is := known.LoadOrStore(key, newFindings(features))
	if !is && celCache != nil {
		runtime.AddCleanup(celCache, func(key knownKey) { known.Delete(key) }, key)
	}
	return found.(*findings)
}

func newFindings(features structured.Features) *findings {
	return &findings{
		slices: inventory.NewKnown(InventoryOptions(features)),
		looks:  selector.NewLooks(selector.DefaultLooks),
	}
}
