package placement

import (
	"math"
	"time"
)

// Options bound what a histogram learns. Zero fields get defaults.
type Options struct {
	// HalfLife is the time after which a pod counts half: 24 hours.
	HalfLife time.Duration
	// MaxPart is how much of the demand may be one namespace's: a quarter. With fewer namespaces than that allows for, all may have
	// equal parts.
	MaxPart float64
	// MaxNamespaces is how many namespaces are remembered: 1024.
	MaxNamespaces int
	// MaxPerNamespace is how many shapes of a namespace are remembered: 64.
	MaxPerNamespace int
	// MaxBytes is what these take, in bytes: 32 KiB.
	MaxBytes int
}

// Pod is a pod that asks for devices.
type Pod struct {
	Namespace string
	MilliCPU  int64 // thousandths of a core
	Memory    int64 // MiB
	Asks      []Ask
}

// Ask is what one request asks for: Count devices of a kind, and Amount of each, in whole devices (0: all of it). The key of the kind is
// opaque: requests with the same key are satisfied by the same devices.
type Ask struct {
	Kind   string
	Count  int
	Amount float64
}

// Histogram learns from pods what is likely to be asked for. It must not be used by two goroutines at a time.
type Histogram struct {
	options Options

	// epoch is when a pod that comes has weight 1; later ones weigh more, which is how earlier ones decay.
	epoch      time.Time
	namespaces map[string]map[string]*entry

	demand *Demand
	learnt int // pods since demand was considered
	seen   int // pods until then
}

// entry is pods of a namespace that are alike.
type entry struct {
	pod    Pod
	weight float64
	bytes  int
}

// entryBytes is how many bytes an entry takes with its key.
func entryBytes(pod Pod, key string) int {
	size := entrySize + len(key)
	for i := range pod.Asks {
		size += askSize + len(pod.Asks[i].Kind)
	}
	return size
}

const (
	// enough pods have to be seen before they say anything.
	enough = 8
	// growth is by how much of what was seen there has to be more before the demand is considered again, at most.
	growth     = 0.25
	considerAt = 256
	// matters is by how much (of 1) the demand has to differ to be replaced.
	matters = 0.02
	// besideMatters is the same for what others request, of what all do.
	besideMatters = 0.1
	// mostBeside bounds Demand.Beside: where there are few pods with devices so far, it says little.
	mostBeside = 4
	// maxText is how long the keys of the kinds that a pod asks for may be in all, in bytes. They are made of expressions, which
	// users can make a hundred times as long, and are kept for as long as the pod is remembered.
	maxText = 4096
	// What an entry and an ask take besides their texts.
	entrySize, askSize = 200, 40
	// maxHalfLives is how far weights may be apart from the epoch before it is moved.
	maxHalfLives = 256
)

// NewHistogram returns an empty histogram.
func NewHistogram(o Options) *Histogram {
	if o.HalfLife <= 0 {
		o.HalfLife = 24 * time.Hour
	}
	if o.MaxPart <= 0 || o.MaxPart > 1 {
		o.MaxPart = 0.25
	}
	if o.MaxNamespaces <= 0 {
		o.MaxNamespaces = 1024
	}
	if o.MaxPerNamespace <= 0 {
		o.MaxPerNamespace = 64
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 32 << 10
	}
	return &Histogram{options: o, namespaces: map[string]map[string]*entry{}, demand: Published()}
}

// Add counts a pod that came at that time. Each pod is to be added once. In which order does not matter. Pods that ask for no
// devices are ignored, and so are those for whose kinds there is no room.
func (h *Histogram) Add(pod Pod, at time.Time) {
	text := 0
	for i := range pod.Asks {
		text += len(pod.Asks[i].Kind)
	}
	if text > maxText {
		return
	}
	pod, key := canonical(pod)
	if len(pod.Asks) == 0 {
		return
	}
	if h.epoch.IsZero() {
		h.epoch = at
	}
	h.advance(at)
	weight := math.Exp2(h.halfLives(at))
	h.learnt++

	namespace := h.namespaces[pod.Namespace]
	if namespace == nil {
		if len(h.namespaces) >= h.options.MaxNamespaces {
			delete(h.namespaces, lightest(h.namespaces, namespaceWeight))
		}
		namespace = map[string]*entry{}
		h.namespaces[pod.Namespace] = namespace
	}
	e := namespace[key]
	if e == nil {
		e = &entry{pod: pod, bytes: entryBytes(pod, key)}
		h.makeRoom(namespace, e)
		namespace[key] = e
	}
	e.weight += weight
	e.pod.MilliCPU = max(e.pod.MilliCPU, pod.MilliCPU)
	e.pod.Memory = max(e.pod.Memory, pod.Memory)
}

// makeRoom forgets the lightest entries of a namespace until there is room for another one.
func (h *Histogram) makeRoom(namespace map[string]*entry, next *entry) {
	taken := next.bytes
	for _, e := range namespace {
		taken += e.bytes
	}
	for len(namespace) > 0 && (len(namespace) >= h.options.MaxPerNamespace || taken > h.options.MaxBytes) {
		key := lightest(namespace, func(e *entry) float64 { return e.weight })
		taken -= namespace[key].bytes
		delete(namespace, key)
	}
}

func (h *Histogram) halfLives(at time.Time) float64 {
	return float64(at.Sub(h.epoch)) / float64(h.options.HalfLife)
}

// advance moves the epoch to a time that is far behind it, and forgets what has no weight any more.
func (h *Histogram) advance(at time.Time) {
	apart := h.halfLives(at)
	if apart < maxHalfLives {
		return
	}
	factor := math.Exp2(-apart)
	for name, namespace := range h.namespaces {
		for key, e := range namespace {
			if e.weight *= factor; e.weight == 0 {
				delete(namespace, key)
			}
		}
		if len(namespace) == 0 {
			delete(h.namespaces, name)
		}
	}
	h.epoch = at
}

func namespaceWeight(namespace map[string]*entry) float64 {
	// In order: sums of the same numbers differ by the order in which they are taken.
	sum := 0.0
	for _, key := range sortedKeys(namespace) {
		sum += namespace[key].weight
	}
	return sum
}

// lightest returns the key whose value weighs least, the first of equals.
func lightest[V any](values map[string]V, weight func(V) float64) string {
	result, least := "", math.Inf(1)
	for _, key := range sortedKeys(values) {
		if w := weight(values[key]); w < least {
			result, least = key, w
		}
	}
	return result
}

// Demand returns what is likely to be asked for, if pods without devices request so much (see Demand.Beside). The same pointer comes
// back until the difference matters.
func (h *Histogram) Demand(now time.Time, beside float64) *Demand {
	if h.learnt == 0 || h.seen+h.learnt < enough {
		return h.demand
	}
	if float64(h.learnt) < min(growth*float64(h.seen), considerAt) {
		return h.demand
	}
	h.seen += h.learnt
	h.learnt = 0
	next := h.compile(now)
	next.Beside = max(0, min(beside, mostBeside))
	if distance(h.demand, next) > matters || math.Abs(next.Beside-h.demand.Beside) > besideMatters*(1+h.demand.Beside) {
		next.Version = h.demand.Version + 1
		h.demand = next
	}
	return h.demand
}
