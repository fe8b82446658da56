package placement

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// prior is how many pods count as seen before the first: each of them asks for one device, whichever. So whatever is published
// keeps some worth.
const prior = 2

// canonical returns a pod whose asks are in order, without those that ask for nothing, and the key of pods that are much like it.
func canonical(pod Pod) (Pod, string) {
	asks := make([]Ask, 0, len(pod.Asks))
	for _, a := range pod.Asks {
		if a.Count > 0 {
			a.Amount = max(0, math.Ceil(min(1, a.Amount)*steps-slack)) / steps
			asks = append(asks, a)
		}
	}
	slices.SortFunc(asks, func(a, b Ask) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Count, b.Count), cmp.Compare(a.Amount, b.Amount))
	})
	pod.Asks = asks
	pod.MilliCPU, pod.Memory = max(0, pod.MilliCPU), max(0, pod.Memory)
	var key strings.Builder
	for _, a := range asks {
		key.WriteString(strconv.Itoa(len(a.Kind)))
		key.WriteByte(' ')
		key.WriteString(a.Kind)
		key.WriteByte(' ')
		key.WriteString(strconv.Itoa(a.Count))
		key.WriteByte(' ')
		key.WriteString(strconv.Itoa(int(math.Round(a.Amount * steps))))
		key.WriteByte(' ')
	}
	key.WriteString(strconv.Itoa(magnitude(pod.MilliCPU)))
	key.WriteByte(' ')
	key.WriteString(strconv.Itoa(magnitude(pod.Memory)))
	return pod, key.String()
}

// magnitude is the same for amounts of CPU or memory that differ by less than 9 %.
func magnitude(v int64) int {
	if v <= 0 {
		return -1
	}
	return int(math.Log2(float64(v)) * 8)
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

// compile makes a demand of what was seen: of each namespace as much as its part, and of all the most frequent shapes.
func (h *Histogram) compile(now time.Time) *Demand {
	h.advance(now) // Weights that are too far apart are no numbers.
	all := h.merged()
	kinds := frequentKinds(all)
	index := map[string]int{}
	for i, kind := range kinds {
		index[kind] = i
	}
	d := &Demand{Kinds: kinds}
	unit := math.Exp2(h.halfLives(now)) // what a pod that comes now weighs
	for _, e := range all {
		d.add(shapeOf(e.pod, index), e.weight)
	}
	mean := d.need(math.MaxUint64)
	d.Shapes = append(d.Shapes, Shape{
		Weight:   prior * unit,
		MilliCPU: int64(mean.milliCPU),
		Memory:   int64(mean.memory),
		Requests: []Request{{Kind: 0, Count: 1}},
	})
	total := 0.0
	for i := range d.Shapes {
		total += d.Shapes[i].Weight
	}
	for i := range d.Shapes {
		d.Shapes[i].Weight /= total
	}
	return d
}

// merged returns what was seen in all namespaces, the most frequent first.
func (h *Histogram) merged() []entry {
	names := sortedKeys(h.namespaces)
	weights := make([]float64, len(names))
	for i, name := range names {
		weights[i] = namespaceWeight(h.namespaces[name])
	}
	limit := capWeight(weights, h.options.MaxPart)
	byKey := map[string]*entry{}
	for i, name := range names {
		factor := 1.0
		if weights[i] > limit {
			factor = limit / weights[i]
		}
		for _, key := range sortedKeys(h.namespaces[name]) {
			e := h.namespaces[name][key]
			sum := byKey[key]
			if sum == nil {
				sum = &entry{pod: e.pod}
				byKey[key] = sum
			}
			sum.weight += factor * e.weight
			sum.pod.MilliCPU = max(sum.pod.MilliCPU, e.pod.MilliCPU)
			sum.pod.Memory = max(sum.pod.Memory, e.pod.Memory)
		}
	}
	all := make([]entry, 0, len(byKey))
	for _, key := range sortedKeys(byKey) {
		all = append(all, *byKey[key])
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(b.weight, a.weight) })
	return all
}

// capWeight returns the weight that none may exceed so that nobody has more than that part of what all have then. If there are
// too few for that, it is the least weight: all have the same.
func capWeight(weights []float64, part float64) float64 {
	sorted := slices.Sorted(slices.Values(weights))
	slices.Reverse(sorted)
	rest := 0.0
	for _, w := range sorted {
		rest += w
	}
	for i, w := range sorted {
		if part*float64(i) >= 1-slack {
			break
		}
		// The i heaviest are capped. What they have is that part of all: limit = part × (i × limit + rest).
		if limit := part * rest / (1 - part*float64(i)); w <= limit {
			return limit
		}
		rest -= w
	}
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)-1]
}

// frequentKinds returns the kinds that are asked for most, in alphabetical order after AnyDevice, as many as there is room for.
func frequentKinds(all []entry) []string {
	weights := map[string]float64{}
	for _, e := range all {
		for _, a := range e.pod.Asks {
			weights[a.Kind] += e.weight
		}
	}
	delete(weights, AnyDevice)
	kinds := sortedKeys(weights)
	slices.SortStableFunc(kinds, func(a, b string) int { return cmp.Compare(weights[b], weights[a]) })
	kinds = kinds[:min(len(kinds), maxKinds-1)]
	slices.Sort(kinds)
	return append([]string{AnyDevice}, kinds...)
}

// shapeOf returns nil if there was no room for a kind of the pod.
func shapeOf(pod Pod, index map[string]int) *Shape {
	shape := &Shape{MilliCPU: pod.MilliCPU, Memory: pod.Memory}
	for _, a := range pod.Asks {
		kind, known := index[a.Kind]
		if !known {
			return nil
		}
		shape.Requests = append(shape.Requests, Request{Kind: kind, Count: a.Count, Amount: a.Amount})
	}
	return shape
}

// add adds a shape. When there are as many as there may be, one that asks for the same devices counts instead.
func (d *Demand) add(shape *Shape, weight float64) {
	if shape == nil {
		return
	}
	if len(d.Shapes) < maxShapes-1 {
		shape.Weight = weight
		d.Shapes = append(d.Shapes, *shape)
		return
	}
	nearest, least := -1, math.Inf(1)
	for i := range d.Shapes {
		other := &d.Shapes[i]
		if !slices.Equal(other.Requests, shape.Requests) {
			continue
		}
		apart := math.Abs(math.Log1p(float64(other.MilliCPU))-math.Log1p(float64(shape.MilliCPU))) +
			math.Abs(math.Log1p(float64(other.Memory))-math.Log1p(float64(shape.Memory)))
		if apart < least {
			nearest, least = i, apart
		}
	}
	if nearest >= 0 {
		d.Shapes[nearest].Weight += weight
	}
}

// distance is how much of the weight of one demand the other has elsewhere, from 0 to 1.
func distance(a, b *Demand) float64 {
	weights := map[string]float64{}
	for i := range a.Shapes {
		weights[a.text(&a.Shapes[i])] -= a.Shapes[i].Weight
	}
	for i := range b.Shapes {
		weights[b.text(&b.Shapes[i])] += b.Shapes[i].Weight
	}
	sum := 0.0
	for _, key := range sortedKeys(weights) {
		sum += math.Abs(weights[key])
	}
	return sum / 2
}

// text is the same for shapes that mean the same in different demands.
func (d *Demand) text(shape *Shape) string {
	pod := Pod{MilliCPU: shape.MilliCPU, Memory: shape.Memory}
	for _, r := range shape.Requests {
		pod.Asks = append(pod.Asks, Ask{Kind: d.Kinds[r.Kind], Count: r.Count, Amount: r.Amount})
	}
	_, key := canonical(pod)
	return key
}
