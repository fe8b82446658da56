package placement

import "math/bits"

// unit is a physical device that partitions were cut out of.
type unit struct {
	devices int
	size    float64 // of the largest device
	free    float64 // of the device with the most free
	takes   uint64  // parts that its devices consist of
	reached uint64  // parts of the devices that can be allocated
}

// inUnits returns the total free size, where each unit counts the most that can be allocated of it at once,
// and the size of intact units. Units that may become intact soon count by the chance of that. Units of one
// device do not count as intact, because their tables account for that.
func (scratch *Scratch) inUnits(s *State) (free, whole float64) {
	units := scratch.units[:0]
	for i := range s.Devices {
		dev := &s.Devices[i]
		number := int(dev.Unit)
		if number < 0 || number >= len(s.Devices) {
			free += dev.Free
			continue
		}
		for number >= len(units) {
			units = append(units, unit{})
		}
		u := &units[number]
		u.devices++
		u.size = max(u.size, dev.Size)
		u.free = max(u.free, dev.Free)
		if place := int(dev.Place); place > 0 && place < len(s.Takes) {
			u.takes |= s.Takes[place]
		}
	}
	scratch.units = units
	for i := range units {
		u := &units[i]
		free += u.free
		switch {
		case u.devices < 2:
		case u.free >= u.size-slack:
			whole += u.size
		default:
			whole += u.size * s.soon(i)
		}
	}
	return free, whole
}

// reached returns the fraction of the units, by size, that devices that can be allocated cover. It needs the
// results of used.
func (scratch *Scratch) reached() (sum float64) {
	for i := range scratch.units {
		if u := &scratch.units[i]; u.reached != 0 {
			sum += u.size * float64(bits.OnesCount64(u.reached)) / float64(bits.OnesCount64(u.takes))
		}
	}
	return sum
}

// soon returns the chance that a unit with holders is wholly free soon, if no other claim gets a part of it.
// A unit with unknown holders counts as having one.
func (s *State) soon(unit int) float64 {
	holders := int32(1)
	if unit < len(s.Holders) {
		holders = max(holders, s.Holders[unit])
	}
	return chances[min(int(holders), len(chances)-1)]
}

// chances is by number of holders.
var chances = powers(leaves, 16)

// powers returns the powers of a chance, from 0 to n.
func powers(chance float64, n int) []float64 {
	all := []float64{1}
	for i := range n {
		all = append(all, chance*all[i])
	}
	return all
}
