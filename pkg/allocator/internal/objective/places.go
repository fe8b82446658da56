package objective

import (
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// AddTo adds the devices of a pool to a state, with their facts and the number of holders of each unit. It
// ignores use on other nodes only. kinds is as in Objective.Kinds. Numbers of units and places continue those
// of the state; State.Takes must have its first element.
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

// maxParts is the number of parts of a unit that fit into placement.State.Takes.
const maxParts = 64

// setPlaces numbers the places. Counters that each device draws whole or not at all, for example memory
// slices, identify the place of a device in its unit.
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
