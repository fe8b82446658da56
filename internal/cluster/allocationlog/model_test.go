package allocationlog

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// modelWrite is one entry of the server's log: a state of a claim, or its deletion.
type modelWrite struct {
	version uint64
	claim   *resourceapi.ResourceClaim
	deleted bool
}

// modelClaim is the model's view of an allocated claim.
type modelClaim struct {
	allocated uint64 // version of the write that allocated it
	devices   []string
	nic       int // share of the device "nic"; 0 nothing, -1 all of it
}

// Each of modelParts consumes its number from a counter with the amount modelCounter.
var modelParts = map[string]int{"part-0": 2, "part-1": 2, "part-2": 1}

const (
	modelCounter  = 3
	modelCapacity = 3
)

func modelSlices() []*b.SliceBuilder {
	devices := b.Devices("gpu-0", "gpu-1", "gpu-2")
	for name, draws := range modelParts {
		devices = append(devices, b.Device(name).Consumes("set", "parts", fmt.Sprint(draws)))
	}
	devices = append(devices, b.Device("nic").Shared().Capacity("memory", fmt.Sprint(modelCapacity)))
	return []*b.SliceBuilder{
		b.Slice("counters").InPool("a", 1, 2).OnAllNodes().Counters("set", "parts", fmt.Sprint(modelCounter)),
		b.Slice("devices").InPool("a", 1, 2).OnAllNodes().Devices(devices...),
	}
}

// loses is the rule itself: of all claims that are allocated, does an earlier one have
// something that this one cannot have then?
func loses(uid types.UID, all map[types.UID]modelClaim) bool {
	own := all[uid]
	shares, parts := 0, make(map[string]bool)
	for other, c := range all {
		if other == uid || c.allocated > own.allocated {
			continue
		}
		if c.nic != 0 && own.nic != 0 && (c.nic < 0 || own.nic < 0) {
			return true
		}
		shares += max(c.nic, 0)
		for _, device := range c.devices {
			if slices.Contains(own.devices, device) {
				return true
			}
			if modelParts[device] > 0 {
				parts[device] = true
			}
		}
	}
	if own.nic > 0 && shares > 0 && shares+own.nic > modelCapacity {
		return true
	}
	return drawsTooMuch(own, parts)
}

// drawsTooMuch adds the claim's parts to those of earlier ones.
func drawsTooMuch(own modelClaim, earlier map[string]bool) bool {
	sum, draws := 0, false
	for part := range earlier {
		sum += modelParts[part]
	}
	for _, device := range own.devices {
		sum += modelParts[device]
		draws = draws || modelParts[device] > 0
	}
	return draws && len(earlier) > 0 && sum > modelCounter
}

// modelServer writes claims at random, as non-participating schedulers would.
type modelServer struct {
	random  *rand.Rand
	log     []modelWrite
	claims  map[string]*resourceapi.ResourceClaim // by name, those that exist
	version uint64
	created int
}

func (s *modelServer) write() {
	name := fmt.Sprint("c", s.random.IntN(6))
	claim := s.claims[name]
	s.version += 1 + s.random.Uint64N(3) // other resources are written, too
	switch {
	case claim == nil:
		s.created++
		claim = free(name)
		claim.UID = types.UID(fmt.Sprint(name, "-", s.created))
	case s.random.IntN(12) == 0:
		s.log = append(s.log, modelWrite{s.version, at(s.version, claim), true})
		delete(s.claims, name)
		return
	case s.random.IntN(4) == 0:
		claim.Generation++ // a write that does not concern the allocation
	case claim.Status.Allocation == nil:
		s.allocate(claim)
	default:
		claim.Status.Allocation = nil
	}
	s.claims[name] = at(s.version, claim)
	s.log = append(s.log, modelWrite{s.version, s.claims[name].DeepCopy(), false})
}

func (s *modelServer) allocate(claim *resourceapi.ResourceClaim) {
	names := []string{"gpu-0", "gpu-1", "gpu-2", "part-0", "part-1", "part-2", "nic"}
	s.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:1+s.random.IntN(2)] {
		one := ours("any", name)
		if name == "nic" && s.random.IntN(4) > 0 {
			one = sharing("any", name, fmt.Sprint("share-", s.version), fmt.Sprint(1+s.random.IntN(2)))
		}
		if claim.Status.Allocation == nil {
			claim.Status.Allocation = one.Status.Allocation
		} else {
			claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, one.Status.Allocation.Devices.Results...)
		}
	}
}

// state replays the first n writes of the log: which claims exist, and what is allocated.
func (s *modelServer) state(n int) (map[types.UID]*resourceapi.ResourceClaim, map[types.UID]modelClaim) {
	existing, allocated := make(map[types.UID]*resourceapi.ResourceClaim), make(map[types.UID]modelClaim)
	for _, w := range s.log[:n] {
		uid := w.claim.UID
		existing[uid] = w.claim
		known, before := allocated[uid]
		switch {
		case w.deleted:
			delete(existing, uid)
			delete(allocated, uid)
		case w.claim.Status.Allocation == nil:
			delete(allocated, uid)
		case !before:
			known.allocated = w.version
			for _, result := range w.claim.Status.Allocation.Devices.Results {
				switch {
				case result.Device != "nic":
					known.devices = append(known.devices, result.Device)
				case result.ShareID == nil:
					known.nic = -1
				default:
					memory := result.ConsumedCapacity["memory"]
					known.nic = int(memory.Value())
				}
			}
			allocated[uid] = known
		}
	}
	return existing, allocated
}

// Random writes reach the Log as events, repeated events and lists. Whenever it claims to have
// seen everything up to a write, the second of two conflicting claims must get the conflict.
func TestAgainstModel(t *testing.T) {
	t.Parallel()
	conflicts := 0
	for seed := range uint64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 5))
			s := &modelServer{random: random, claims: make(map[string]*resourceapi.ResourceClaim), version: 10}
			w := newWorld(t, modelSlices()...)
			w.OnConflict(nil)
			relists := seed%2 == 0
			relisted, delivered := false, 0
			for range 120 {
				for range random.IntN(4) {
					s.write()
				}
				switch next := random.IntN(10); {
				case next == 0 && relists:
					delivered, relisted = len(s.log), true
					existing, _ := s.state(delivered)
					w.relist(s.version, shuffled(random, existing)...)
				case next == 1 && delivered > 0:
					deliver(w, s.log[random.IntN(delivered)])
				default:
					for n := random.IntN(5); n > 0 && delivered < len(s.log); n-- {
						deliver(w, s.log[delivered])
						delivered++
					}
				}
				conflicts += compareWithModel(t, w, s, delivered, !relisted)
			}
		})
	}
	require.Greater(t, conflicts, 1000, "the test must meet conflicts")
}

func deliver(w *world, write modelWrite) {
	if write.deleted {
		w.remove(write.version, write.claim)
	} else {
		w.write(write.version, write.claim)
	}
}

func shuffled(random *rand.Rand, claims map[types.UID]*resourceapi.ResourceClaim) []*resourceapi.ResourceClaim {
	var list []*resourceapi.ResourceClaim
	for _, claim := range claims {
		list = append(list, claim)
	}
	slices.SortFunc(list, func(a, b *resourceapi.ResourceClaim) int { return cmp.Compare(a.UID, b.UID) })
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// compareWithModel checks the answers for all claims. exact says that no list has blurred
// the order. It returns how many claims have lost.
func compareWithModel(t *testing.T, w *world, s *modelServer, delivered int, exact bool) (lost int) {
	t.Helper()
	_, allocated := s.state(delivered)
	require.Len(t, w.index.claims, len(allocated))
	requireConsistent(t, &w.index)
	if delivered > 0 {
		require.GreaterOrEqual(t, w.progress.upTo(), s.log[delivered-1].version)
	}
	for uid, truth := range allocated {
		span := w.index.claims[uid].written
		require.True(t, span.First <= truth.allocated && truth.allocated <= span.Last, "%s was allocated in %d, not in %v", uid, truth.allocated, span)
		conflict := w.lost(uid)
		switch {
		case loses(uid, allocated):
			lost++
			require.NotNil(t, conflict, "%s came second, but is not told so", uid)
		case exact:
			require.Nil(t, conflict, "%s came first", uid)
		case conflict != nil:
			require.True(t, slices.ContainsFunc(w.Conflicts(uid), func(c Conflict) bool { return c.Lost && c.Relation == Unknown }),
				"%s came first, and there is no doubt about that", uid)
		}
		for _, conflict := range w.Conflicts(uid) {
			other := allocated[conflict.Other.UID].allocated
			require.False(t, conflict.Relation == Earlier && other > truth.allocated || conflict.Relation == Later && other < truth.allocated, "%v", conflict)
		}
	}
	return lost
}
