package main

import "github.com/quartermaster-dra/quartermaster/test/placement/trace"

// figures are the results of the second window.
type figures struct {
	waits []*arrived
	// held is the part of the GPU capacity that is allocated, empty the part of the nodes without pods, emptyGPUs the part of the GPUs
	// on these nodes: means over time, in %.
	held, empty, emptyGPUs float64
	// on and off are the mean power in kW if empty nodes stay on, and if they are switched off.
	on, off float64
}

// add adds a part of other figures, without the waits.
func (f *figures) add(other *figures, part float64) {
	f.held += part * other.held
	f.empty += part * other.empty
	f.emptyGPUs += part * other.emptyGPUs
	f.on += part * other.on
	f.off += part * other.off
}

// meter sums up the second window.
type meter struct {
	c                      *cluster
	at                     int64
	capacity, gpus         float64
	held, empty, emptyGPUs float64
	on, off                float64
}

func newMeter(c *cluster) *meter {
	m := &meter{c: c}
	for i := range c.hosts {
		m.gpus += float64(c.hosts[i].n)
	}
	m.capacity = m.gpus * trace.WholeGPU
	return m
}

// until adds the state since the last call.
func (m *meter) until(at int64) {
	past := float64(max(0, min(at, 2*window)-max(m.at, window)))
	m.at = at
	if past == 0 {
		return
	}
	free := 0
	for i := range m.c.hosts {
		h := &m.c.hosts[i]
		free += h.left()
		watts := h.watts()
		m.on += past * watts
		if len(h.running) == 0 {
			m.empty += past
			m.emptyGPUs += past * float64(h.n)
		} else {
			m.off += past * watts
		}
	}
	m.held += past * (m.capacity - float64(free))
}

func (m *meter) read(f *figures) {
	f.held = 100 * m.held / m.capacity / window
	f.empty = 100 * m.empty / float64(len(m.c.hosts)) / window
	f.emptyGPUs = 100 * m.emptyGPUs / m.gpus / window
	f.on, f.off = m.on/1000/window, m.off/1000/window
}

// Power of a processor with 32 hardware threads, and of GPUs, in watts: idle, and at the vendor's limit. A processor draws the limit if
// one of its threads is requested, a GPU if a part of it is allocated. G2 and G3 are not named in the trace; they count as A10 and A100.
var (
	processor = [2]float64{15, 120}
	ofModel   = map[string][2]float64{
		"T4": {10, 70}, "P100": {25, 250}, "V100M16": {30, 300}, "V100M32": {30, 300}, "A10": {30, 150}, "G2": {30, 150}, "G3": {50, 400},
	}
)

const threads = 32_000 // of a processor, in thousandths

func (h *host) watts() float64 {
	all := (h.wholeCPU + threads - 1) / threads
	busy := (h.wholeCPU - h.milliCPU + threads - 1) / threads
	watts := processor[1]*float64(busy) + processor[0]*float64(all-busy)
	gpu := ofModel[h.model]
	for _, free := range h.free[:h.n] {
		if free == trace.WholeGPU {
			watts += gpu[0]
		} else {
			watts += gpu[1]
		}
	}
	return watts
}
