package placement

// unit is what partitions were cut out of.
type unit struct {
	devices int
	size    float64 // of the largest device
	free    float64 // of the one of which most is free
	soon    float64
}

// inUnits returns what is free in all, each unit with the most that can be had of it at once, and how many units are intact. Those that
// may be before long count by the chance of that. Units of one device do not count: whether that is whole is in its table.
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
		u.soon = max(u.soon, dev.Soon)
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
			whole += u.size * u.soon
		}
	}
	return free, whole
}
