package objective

import (
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// AddTo adds the devices of a pool to a state, with what is known whatever is used of them, and how
// many of each unit are in use. What is in use on other nodes only is not seen here. kinds is as in
// Objective.Kinds. Units and places are numbered on; State.Takes must have begun.
func (f *Facts) AddTo(s *State, kinds []uint64, every uint64, inUse bitset.Set) {
	firstUnit, before := int32(len(s.Holders)), int32(len(s.Takes)-1)
	for i := range f.Size {
		d := Device{Kinds: every, Unit: firstUnit + f.Unit[i], Size: f.Size[i]}
		if kinds != nil {
			d.Kinds = kinds[i]
		}
		if f.Place[i] > 0 {
			d.Place = before + f.Place[i]
		}
		s.Devices = append(s.Devices, d)
	}
	s.Takes = append(s.Takes, f.Takes[1:]...)
	s.Holders = append(s.Holders, make([]int32, f.Units)...)
	for i := range inUse.All() {
		s.Hold(firstUnit+f.Unit[i], true)
	}
}

// maxParts is how many parts of a unit placement.State.Takes has room for.
const maxParts = 64

// setPlaces numbers places: counters that each device draws whole or not at all, such as memory
// slices, say where in its unit a device is.
func (f *Facts) setPlaces(l *inventory.Layout, measuring *counters) {
	type place struct {
		unit  int32
		parts uint64
	}
	f.Place, f.Takes = make([]int32, len(l.Devices)), []uint64{0}
	numbers, bit, used := map[place]int32{}, map[int]int{}, make([]int, f.Units)
	for i := range l.Partitions.All() {
		parts, known := uint64(0), true
		for _, draw := range l.Counters.Draws(i) {
			for number, drawn := range draw.All() {
				if drawn.Float() <= 0 || measuring.published[number] <= 0 || measuring.partly[number] {
					continue
				}
				if _, found := bit[number]; !found {
					bit[number] = used[f.Unit[i]]
					used[f.Unit[i]]++
				}
				known = known && bit[number] < maxParts
				parts |= 1 << bit[number]
			}
		}
		if parts == 0 || !known {
			continue
		}
		at := place{f.Unit[i], parts}
		if numbers[at] == 0 {
			numbers[at] = int32(len(f.Takes))
			f.Takes = append(f.Takes, parts)
		}
		f.Place[i] = numbers[at]
	}
}
