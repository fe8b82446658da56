package allocator

import (
	"runtime"
	"sync"
	"weak"

	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// known has what the allocators that New made have found out about slices: an
// *inventory.Known for each knownKey. It is the only state that they share. An entry goes
// with its CEL cache, and what is in it goes with the slices.
var known sync.Map

// knownKey says what has to be the same so that what is known of a slice is: how
// expressions are evaluated, and which parts of the API are understood.
type knownKey struct {
	celCache weak.Pointer[cel.Cache]
	features structured.Features
}

func knownTo(celCache *cel.Cache, features structured.Features) *inventory.Known {
	key := knownKey{weak.Make(celCache), features}
	if found, is := known.Load(key); is {
		return found.(*inventory.Known)
	}
	found, is := known.LoadOrStore(key, inventory.NewKnown(InventoryOptions(features)))
	if !is && celCache != nil {
		runtime.AddCleanup(celCache, func(key knownKey) { known.Delete(key) }, key)
	}
	return found.(*inventory.Known)
}
