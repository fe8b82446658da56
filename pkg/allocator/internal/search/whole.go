package search

// wholeUnits is how many things of the node are wholly free with what is placed, if anybody wants to
// know. A device is one, and so is all that is cut out of the same: a GPU with its partitions. Those
// that the node cannot use do not count.
func (i *improvement) wholeUnits() (whole int) {
	if !i.view.CountWhole {
		return 0
	}
	counted := make(map[int32]bool)
	for n := range i.room.state.Devices {
		d := &i.room.state.Devices[n]
		if d.Size > 0 && !counted[d.Unit] && i.room.groups.IsWhole(d.Unit) {
			counted[d.Unit] = true
			whole++
		}
	}
	return whole
}
