package placement

import (
	"math"
	"time"
)

const (
	// halfLife is the time after which a pod counts half.
	halfLife = 24 * time.Hour
	// maxPart is the maximum fraction of the demand for one namespace. With too few namespaces for that, all may
	// have equal parts.
	maxPart = 0.25
	// maxNamespaces is the maximum number of remembered namespaces, and maxPerNamespace that of the shapes of a
	// namespace. maxBytes is the maximum size of these shapes.
	maxNamespaces   = 1024
	maxPerNamespace = 64
	maxBytes        = 32 << 10
)

// A Pod is a pod that requests devices.
type Pod struct {
	Namespace string
	MilliCPU  int64 // thousandths of a core
	Memory    int64 // MiB
	Asks      []Ask
}

// An Ask is one request: for Count devices of a kind, and for Amount of each, in whole devices (0: all of
// it). The key of the kind is opaque: the same devices satisfy requests with the same key.
type Ask struct {
	Kind   string
	Count  int
	Amount float64
}

// A Histogram learns the likely demand from pods. It is not safe for concurrent use.
type Histogram struct {

	// epoch is the time at which a new pod has weight 1. Later pods weigh more, so that earlier ones decay.
	epoch      time.Time
	namespaces map[string]map[string]*entry

	demand *Demand
	learnt int // pods since the demand was last considered
	seen   int // pods before that
}

// entry holds similar pods of a namespace.
type entry struct {
	pod    Pod
	weight float64
	bytes  int
}

// entryBytes returns the size of an entry with its key, in bytes.
func entryBytes(pod Pod, key string) int {
	size := entrySize + len(key)
	for i := range pod.Asks {
		size += askSize + len(pod.Asks[i].Kind)
	}
	return size
}

const (
	// enough is the minimum number of pods that the demand is derived from.
	enough = 8
	// growth is the relative increase in pods after which the demand is considered again, at most considerAt pods.
	growth     = 0.25
	considerAt = 256
	// matters is the minimum distance (of 1) at which a demand is replaced.
	matters = 0.02
	// besideMatters is the minimum relative change of 1 + Demand.Beside at which a demand is replaced.
	besideMatters = 0.1
	// mostBeside limits Demand.Beside, which means little while there are few pods with devices.
	mostBeside = 4
	// maxText limits the total length of the keys of a pod's kinds, in bytes. They consist of expressions,
	// which users can make a hundred times as long, and are kept as long as the pod is remembered.
	maxText = 4096
	// Sizes of an entry and of an ask without their texts, in bytes.
	entrySize, askSize = 200, 40
	// maxHalfLives is the distance from the epoch, in half-lives, at which the epoch is moved.
	maxHalfLives = 256
)

// NewHistogram returns an empty histogram.
func NewHistogram() *Histogram {
	return &Histogram{namespaces: map[string]map[string]*entry{}, demand: Published()}
}

// Add counts a pod that came at the given time. Each pod must be added once, in any order. Add ignores pods
// that request no devices, and pods whose kinds exceed maxText.
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
		if len(h.namespaces) >= maxNamespaces {
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

// makeRoom removes the lightest entries of a namespace until the next entry fits.
func (h *Histogram) makeRoom(namespace map[string]*entry, next *entry) {
	taken := next.bytes
	for _, e := range namespace {
		taken += e.bytes
	}
	for len(namespace) > 0 && (len(namespace) >= maxPerNamespace || taken > maxBytes) {
		key := lightest(namespace, func(e *entry) float64 { return e.weight })
		taken -= namespace[key].bytes
		delete(namespace, key)
	}
}

func (h *Histogram) halfLives(at time.Time) float64 {
	return float64(at.Sub(h.epoch)) / float64(halfLife)
}

// advance moves the epoch if the given time is far ahead of it, and removes entries whose weight became 0.
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
	// In order, because floating-point sums depend on it.
	sum := 0.0
	for _, key := range sortedKeys(namespace) {
		sum += namespace[key].weight
	}
	return sum
}

// lightest returns the key of the least weight, the first of equals.
func lightest[V any](values map[string]V, weight func(V) float64) string {
	result, least := "", math.Inf(1)
	for _, key := range sortedKeys(values) {
		if w := weight(values[key]); w < least {
			result, least = key, w
		}
	}
	return result
}

// Demand returns the likely demand; beside is the value for Demand.Beside. It returns the same pointer until
// the difference matters.
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
