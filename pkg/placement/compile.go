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

// prior is the number of assumed pods before the first real one. Each of them requests one arbitrary device,
// so that all published devices keep some worth.
const prior = 2

// canonical returns a pod with sorted asks, without empty ones, and a key that is equal for very similar pods.
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

// magnitude is equal for amounts of CPU or memory that differ by less than 9 %.
func magnitude(v int64) int {
	if v <= 0 {
		return -1
	}
	return int(math.Log2(float64(v)) * 8)
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

// compile returns the demand from the pods seen so far: the capped part of each namespace, and the most
// frequent shapes of all.
func (h *Histogram) compile(now time.Time) *Demand {
	h.advance(now) // Weights that are too far apart overflow.
	all := h.merged()
	kinds := frequentKinds(all)
	index := map[string]int{}
	for i, kind := range kinds {
		index[kind] = i
	}
	d := &Demand{Kinds: kinds}
	unit := math.Exp2(h.halfLives(now)) // weight of a pod that comes now
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

// merged returns the entries of all namespaces, the most frequent first.
func (h *Histogram) merged() []entry {
	names := sortedKeys(h.namespaces)
	weights := make([]float64, len(names))
	for i, name := range names {
		weights[i] = namespaceWeight(h.namespaces[name])
	}
	limit := capWeight(weights, maxPart)
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

// capWeight returns the maximum weight that keeps each namespace at or below the given part of the capped
// total. If there are too few namespaces for that, it returns the least weight, so that all have the same.
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
		// The i heaviest are capped. The limit is that part of all: limit = part × (i × limit + rest).
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

// frequentKinds returns the most requested kinds, as many as fit, in alphabetical order after AnyDevice.
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

// shapeOf returns the shape of a pod, or nil if any of its kinds did not fit.
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

// add adds a shape. If the demand is full, the weight goes to the most similar shape with the same requests.
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

// distance returns the fraction of weight, from 0 to 1, that differs between two demands.
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

// text returns a text that is equal for shapes with the same meaning in different demands.
func (d *Demand) text(shape *Shape) string {
	pod := Pod{MilliCPU: shape.MilliCPU, Memory: shape.Memory}
	for _, r := range shape.Requests {
		pod.Asks = append(pod.Asks, Ask{Kind: d.Kinds[r.Kind], Count: r.Count, Amount: r.Amount})
	}
	_, key := canonical(pod)
	return key
}
