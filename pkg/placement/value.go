package placement

import "math"

const (
	// Epsilon is the minimum difference of costs that decides. Smaller differences leave the decision to the
	// order of drivers and nodes.
	Epsilon = 1e-9
	// bestFit weighs the free resources in the comparison of nodes: one whole free device, or the CPU or memory
	// that a pod with one device takes. Among nodes that lose the same, the one with the least left over is taken.
	bestFit = 0.00375
	// together is the additional worth of capacity that requests for several devices can use.
	together = 0.3
	// drains is the chance that a device in use becomes free before the free ones beside it are taken. A node lacks some devices
	// for a request for several: it is worth as much as a node with all of them, times drains for each that it lacks.
	drains = 0.6
	// intact is the worth of a device that is published in partitions and has no holder, beyond the use of
	// its partitions. The fewer holders there are, the sooner it may be intact.
	intact = 1
	// reach is the worth of free partitions that cover every part of such a device. A part that none of them
	// covers, next to a held partition, is useless.
	reach = 1.6
	// leaves is the chance that a holder of a partition leaves soon.
	leaves = 0.5
	// unbroken decides between choices that leave the same usable capacity: the choice that leaves a device
	// whole is better, since the demand may change.
	unbroken = 1e-6
	// crowding is the fraction of Demand.Beside that counts as a need of devices: some of the pods without
	// devices go where they do no harm.
	crowding = 0.5
)

// A Value is the worth of a state.
type Value struct {
	// Usable is the capacity that is expected to be used in the end, in whole devices, unless it is of better use elsewhere.
	Usable float64
	// Left is the weight of all free resources, usable or not.
	Left float64
}

// Cost returns the cost of a choice that leads from one value to another: the capacity that becomes useless
// for others, and the remaining room for a better fit. Smaller is better, for choices on one node and on
// different nodes.
func Cost(before, after Value) float64 {
	return before.Usable - after.Usable + after.Left
}

// Scratch is memory for Assess. The zero value is ready to use. It is not safe for concurrent use.
type Scratch struct {
	sets []set
	// whole is the number of wholly free devices, and all that of all devices, by kind.
	whole, all [maxKinds]int
	units      []unit
	// places is, by place, the maximum expected use of a device there.
	places []float64
}

// set caches the table for devices of the same kinds and size.
type set struct {
	kinds uint64
	size  float64
	table *table
}

// Assess returns the worth of a state. Its time is of the order of devices × kinds of them + shapes ×
// shareable devices.
func (d *Demand) Assess(s *State, scratch *Scratch) Value {
	if scratch == nil {
		scratch = &Scratch{}
	}
	kinds := scratch.count(s)
	free, whole := scratch.inUnits(s)
	need := d.need(kinds)
	fitting, groups := d.fitting(s, scratch)
	usable := scratch.used(d, s, fitting)
	value := Value{
		Usable: need.limit(s, usable) + together*groups + intact*whole + reach*scratch.reached(),
		Left:   bestFit * (free + need.equivalent(s)),
	}
	if value.Usable > 0 {
		value.Usable += unbroken * float64(scratch.whole[0]) // Index 0 is the kind AnyDevice.
	}
	return value
}

// count counts the wholly free devices by kind, and returns the kinds of all devices, free or not.
func (scratch *Scratch) count(s *State) (kinds uint64) {
	clear(scratch.whole[:])
	clear(scratch.all[:])
	for i := range s.Devices {
		dev := &s.Devices[i]
		kinds |= dev.Kinds
		forEach(dev.Kinds, func(kind int) { scratch.all[kind]++ })
		if dev.Free > 0 && dev.Free >= dev.Size-slack {
			forEach(dev.Kinds, func(kind int) { scratch.whole[kind]++ })
		}
	}
	return kinds
}

// need is the CPU and memory that pods request with each whole device, including the pods without devices beside them.
type need struct{ milliCPU, memory float64 }

// need returns the mean of the shapes that devices of these kinds can satisfy.
func (d *Demand) need(kinds uint64) (n need) {
	devices := 0.0
	for i := range d.Shapes {
		shape := &d.Shapes[i]
		if shape.kinds()&^kinds != 0 {
			continue
		}
		devices += shape.Weight * shape.total()
		n.milliCPU += shape.Weight * float64(shape.MilliCPU)
		n.memory += shape.Weight * float64(shape.Memory)
	}
	if devices > 0 {
		n.milliCPU *= (1 + crowding*d.Beside) / devices
		n.memory *= (1 + crowding*d.Beside) / devices
	}
	return n
}

// limit reduces the usable devices by the scarcer of CPU and memory. It begins to do so before they are
// short: of two nodes, the one with more left of what devices need should be used.
func (n need) limit(s *State, usable float64) float64 {
	if usable <= 0 {
		return 0
	}
	return usable * min(share(s.MilliCPU, n.milliCPU*usable), share(s.Memory, n.memory*usable))
}

// share returns a smooth minimum of 1 and have/want: (1 + (want/have)^4)^(-1/4).
func share(have int64, want float64) float64 {
	if have < 0 || want <= 0 {
		return 1
	}
	if have == 0 {
		return 0
	}
	r := want / float64(have)
	r *= r
	return 1 / math.Sqrt(math.Sqrt(1+r*r))
}

// equivalent returns the CPU and memory left, in devices that need as much.
func (n need) equivalent(s *State) float64 {
	result := 0.0
	if n.milliCPU > 0 && s.MilliCPU > 0 {
		result += float64(s.MilliCPU) / n.milliCPU
	}
	if n.memory > 0 && s.Memory > 0 {
		result += float64(s.Memory) / n.memory
	}
	return result
}

// fitting returns the set of shapes with room for a pod, and the capacity that requests for several devices can use, now or once
// devices in use are free, weighted by their size.
func (d *Demand) fitting(s *State, scratch *Scratch) (fitting uint64, groups float64) {
	for i := range d.Shapes {
		shape := &d.Shapes[i]
		pods := shape.pods(s)
		for j := range shape.Requests {
			if pods == 0 {
				break
			}
			r := &shape.Requests[j]
			pods = min(pods, scratch.candidates(s, r)/max(1, r.Count))
		}
		if pods > 0 {
			fitting |= 1 << i
		}
		for j := range shape.Requests {
			if r := &shape.Requests[j]; r.Count > 1 {
				groups += shape.Weight * float64(r.Count) * (float64(pods) + scratch.later(s, r, pods)) * shape.total()
				break
			}
		}
	}
	return fitting, groups
}

// later returns the part of a further group of devices that counts although the group is not free yet.
func (scratch *Scratch) later(s *State, r *Request, pods int) float64 {
	if scratch.all[r.Kind] < (pods+1)*r.Count {
		return 0
	}
	lacks := (pods+1)*r.Count - scratch.candidates(s, r)
	return drained[min(max(1, lacks), len(drained)-1)]
}

// drained is by number of devices that a group lacks.
var drained = powers(drains, 64)

// pods returns the number of pods of a shape that CPU and memory suffice for.
func (shape *Shape) pods(s *State) int {
	pods := math.MaxInt
	if shape.MilliCPU > 0 && s.MilliCPU >= 0 {
		pods = int(s.MilliCPU / shape.MilliCPU)
	}
	if shape.Memory > 0 && s.Memory >= 0 {
		pods = min(pods, int(s.Memory/shape.Memory))
	}
	return pods
}

// candidates returns the number of devices that a request could get.
func (scratch *Scratch) candidates(s *State, r *Request) int {
	if r.Amount == 0 {
		return scratch.whole[r.Kind]
	}
	n := 0
	for i := range s.Devices {
		dev := &s.Devices[i]
		if dev.Kinds>>r.Kind&1 != 0 && dev.Free >= r.Amount-slack && dev.Free > 0 {
			n++
		}
	}
	return n
}

// used returns the sum of the expected use of each device if pods of the fitting shapes come. Of devices at
// the same place only the maximum counts.
func (scratch *Scratch) used(d *Demand, s *State, fitting uint64) float64 {
	scratch.sets = scratch.sets[:0]
	scratch.places = append(scratch.places[:0], make([]float64, len(s.Takes))...)
	sum := 0.0
	for i := range s.Devices {
		dev := &s.Devices[i]
		if dev.Free <= 0 || dev.Size <= 0 {
			continue
		}
		t := scratch.table(d, dev, fitting)
		scale := float64(t.size) / dev.Size
		part := min(t.size, int(dev.Free*scale+slack))
		used := t.used[part] * steps / scale
		sum += used
		if place := int(dev.Place); place > 0 && place < len(s.Takes) && used > 0 {
			known := &scratch.places[place]
			sum -= min(used, *known)
			*known = max(used, *known)
			scratch.units[dev.Unit].reached |= s.Takes[place]
		}
	}
	return sum
}

// table returns the table of a device. Many devices share it.
func (scratch *Scratch) table(d *Demand, dev *Device, fitting uint64) *table {
	for i := range scratch.sets {
		if set := &scratch.sets[i]; set.kinds == dev.Kinds && set.size == dev.Size {
			return set.table
		}
	}
	size := max(1, min(steps, int(math.Round(dev.Size*steps))))
	shapes, kinds := uint64(0), dev.Kinds
	forEach(fitting, func(i int) {
		if d.Shapes[i].kinds()&kinds != 0 {
			shapes |= 1 << i
		}
	})
	t := d.table(shapes, kinds, size)
	scratch.sets = append(scratch.sets, set{dev.Kinds, dev.Size, t})
	return t
}
