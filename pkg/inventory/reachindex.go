package inventory

import (
	"encoding/binary"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
)

// reachIndex finds the slices of a pool that a node reaches, without checking each device of a
// large pool for each node.
type reachIndex struct {
	// numbers maps the pool's slices to their positions.
	numbers map[*Slice]int
	// always is the set of slices that every node reaches.
	always bitset.Set
	// byName maps a node to the slices for it alone, or with devices for it.
	byName map[string][]int
	// selectors holds the different node selectors of slices and devices, with the slices that each
	// makes a node reach.
	selectors []selected
	// byLabel maps a label to the selectors that match only nodes with one of some labels. It is
	// nil if there are few selectors. others holds the rest.
	byLabel map[label][]int
	others  []int
}

// selected holds the slices that the nodes matched by a selector reach.
type selected struct {
	selector *nodeaffinity.NodeSelector
	terms    *v1.NodeSelector
	slices   []int
}

// label is a label or a field of a node.
type label struct {
	key, value string
	field      bool
}

// fewSelectors is the maximum number of selectors that are all tried, without a lookup by label.
const fewSelectors = 4

// reachIndex returns the index, and builds it on first use.
func (p *Pool) reachIndex() *reachIndex {
	if x := p.reaches.Load(); x != nil {
		return x
	}
	p.reaches.CompareAndSwap(nil, newReachIndex(p))
	return p.reaches.Load()
}

func newReachIndex(p *Pool) *reachIndex {
	x := &reachIndex{numbers: make(map[*Slice]int, len(p.slices)), always: bitset.New(len(p.slices)), byName: make(map[string][]int)}
	known := make(map[string]int) // selectors by their text
	for number, slice := range p.slices {
		x.numbers[slice] = number
		switch {
		case p.ignores(slice):
			continue
		case slice.broken != nil:
			x.always.Add(number)
			continue
		}
		x.add(number, slice.reach, true, known)
		for _, device := range slice.deviceReach {
			// If the slice has a node selection of its own, its devices only determine which of
			// them a node can use.
			x.add(number, device, !slice.reach.set(), known)
		}
	}
	x.indexSelectors()
	return x
}

// add records the reach of a slice, or of one of its devices. Nodes that match it reach the slice
// if reached is set.
func (x *reachIndex) add(slice int, r reach, reached bool, known map[string]int) {
	switch {
	case r.nodeName != "":
		x.byName[r.nodeName] = addLast(x.byName[r.nodeName], slice, reached)
	case r.allNodes:
		if reached {
			x.always.Add(slice)
		}
	case r.selector != nil:
		written := r.terms.String()
		number, found := known[written]
		if !found {
			number = len(x.selectors)
			known[written] = number
			x.selectors = append(x.selectors, selected{selector: r.selector, terms: r.terms})
		}
		x.selectors[number].slices = addLast(x.selectors[number].slices, slice, reached)
	}
}

// addLast adds a slice to an ascending list, once, if it is reached.
func addLast(list []int, slice int, reached bool) []int {
	if !reached || len(list) > 0 && list[len(list)-1] == slice {
		return list
	}
	return append(list, slice)
}

// indexSelectors prepares matching selectors to nodes.
func (x *reachIndex) indexSelectors() {
	if len(x.selectors) > fewSelectors {
		x.byLabel = make(map[label][]int)
	}
	for number, s := range x.selectors {
		labels, needed := neededLabels(s.terms)
		if x.byLabel == nil || !needed {
			x.others = append(x.others, number)
			continue
		}
		for _, l := range labels {
			x.byLabel[l] = append(x.byLabel[l], number)
		}
	}
}

// neededLabels returns a list of labels. A node needs at least one of them to match the selector.
// needed is false if nodes without any of them may match.
func neededLabels(selector *v1.NodeSelector) (labels []label, needed bool) {
	for _, term := range selector.NodeSelectorTerms {
		in := func(r v1.NodeSelectorRequirement) bool { return r.Operator == v1.NodeSelectorOpIn }
		if i := slices.IndexFunc(term.MatchExpressions, in); i >= 0 {
			labels = appendLabels(labels, term.MatchExpressions[i], false)
		} else if i := slices.IndexFunc(term.MatchFields, in); i >= 0 {
			labels = appendLabels(labels, term.MatchFields[i], true)
		} else if len(term.MatchExpressions)+len(term.MatchFields) > 0 { // An empty term matches no node.
			return nil, false
		}
	}
	return labels, true
}

func appendLabels(labels []label, requirement v1.NodeSelectorRequirement, field bool) []label {
	for _, value := range requirement.Values {
		if l := (label{requirement.Key, value, field}); !slices.Contains(labels, l) {
			labels = append(labels, l)
		}
	}
	return labels
}

// of returns the slices that a node reaches, and a key that is the same for nodes with the same
// view of the pool.
func (x *reachIndex) of(node *v1.Node) (reached bitset.Set, key []byte) {
	reached, key = x.always.Clone(), make([]byte, 0, 64)
	add := func(list []int) {
		for _, slice := range list {
			reached.Add(slice)
		}
	}
	for _, number := range x.matching(node) {
		key = binary.AppendUvarint(key, uint64(number)+1)
		add(x.selectors[number].slices)
	}
	if list, found := x.byName[node.Name]; found {
		key = append(append(key, 0), node.Name...)
		add(list)
	}
	return reached, key
}

// matching returns the numbers of the selectors that match a node, ascending.
func (x *reachIndex) matching(node *v1.Node) []int {
	var numbers []int
	add := func(list []int) {
		for _, number := range list {
			if x.selectors[number].selector.Match(node) {
				numbers = append(numbers, number)
			}
		}
	}
	add(x.others)
	if x.byLabel == nil {
		return numbers
	}
	add(x.byLabel[label{"metadata.name", node.Name, true}])
	for key, value := range node.Labels {
		add(x.byLabel[label{key, value, false}])
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}
