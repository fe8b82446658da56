package ledger

import (
	"hash/maphash"
	"slices"
)

// useMap maps names to devices in use. It is immutable: a map with one entry more or less shares
// all but a few hundred bytes with it. The cost of an event therefore does not depend on the number
// of devices in a pool. The map is a tree by the bits of a hash.
type useMap struct {
	root *useNode
	len  int
}

// useNode is either a leaf with a few entries, unordered, or a branch.
type useNode struct {
	uses     []namedUse
	children *[useFanOut]*useNode // nil for a leaf
}

type namedUse struct {
	hash  uint64
	name  string
	usage DeviceUsage
}

const (
	useBits   = 4
	useFanOut = 1 << useBits
	// useLeaf is the maximum number of entries of a leaf, unless no bits of the hash are left.
	useLeaf  = 8
	useDepth = 64 / useBits
)

var useSeed = maphash.MakeSeed()

// get returns the usage of a device, which is empty if the device is not in use.
func (m useMap) get(name string) DeviceUsage {
	if m.len == 0 {
		return DeviceUsage{}
	}
	hash, node := maphash.String(useSeed, name), m.root
	for depth := 0; node != nil; depth++ {
		if node.children == nil {
			for i := range node.uses {
				if node.uses[i].hash == hash && node.uses[i].name == name {
					return node.uses[i].usage
				}
			}
			return DeviceUsage{}
		}
		node = node.children[childOf(hash, depth)]
	}
	return DeviceUsage{}
}

func childOf(hash uint64, depth int) int { return int(hash >> (useBits * depth) % useFanOut) }

// with returns the map with the usage of a device replaced, or removed if the usage is empty.
func (m useMap) with(name string, usage DeviceUsage) useMap {
	hash := maphash.String(useSeed, name)
	if usage.empty() {
		root, removed := m.root.without(hash, name, 0)
		if !removed {
			return m
		}
		return useMap{root, m.len - 1}
	}
	root, added := m.root.with(namedUse{hash, name, usage}, 0)
	return useMap{root, m.len + added}
}

func (n *useNode) with(use namedUse, depth int) (node *useNode, added int) {
	if n == nil {
		return &useNode{uses: []namedUse{use}}, 1
	}
	if n.children != nil {
		children, at := *n.children, childOf(use.hash, depth)
		children[at], added = n.children[at].with(use, depth+1)
		return &useNode{children: &children}, added
	}
	if i := n.find(use.hash, use.name); i >= 0 {
		uses := slices.Clone(n.uses)
		uses[i] = use
		return &useNode{uses: uses}, 0
	}
	uses := append(n.uses[:len(n.uses):len(n.uses)], use)
	return newUseNode(uses, depth), 1
}

// newUseNode makes a node of entries, and keeps the list.
func newUseNode(uses []namedUse, depth int) *useNode {
	if len(uses) <= useLeaf || depth == useDepth {
		return &useNode{uses: uses}
	}
	var parts [useFanOut][]namedUse
	for _, use := range uses {
		at := childOf(use.hash, depth)
		parts[at] = append(parts[at], use)
	}
	children := new([useFanOut]*useNode)
	for at, part := range parts {
		if len(part) > 0 {
			children[at] = newUseNode(part, depth+1)
		}
	}
	return &useNode{children: children}
}

func (n *useNode) find(hash uint64, name string) int {
	return slices.IndexFunc(n.uses, func(use namedUse) bool { return use.hash == hash && use.name == name })
}

// without returns nil for a node that becomes empty.
func (n *useNode) without(hash uint64, name string, depth int) (node *useNode, removed bool) {
	if n == nil {
		return nil, false
	}
	if n.children == nil {
		i := n.find(hash, name)
		switch {
		case i < 0:
			return n, false
		case len(n.uses) == 1:
			return nil, true
		}
		uses := make([]namedUse, 0, len(n.uses)-1)
		return &useNode{uses: append(append(uses, n.uses[:i]...), n.uses[i+1:]...)}, true
	}
	at := childOf(hash, depth)
	child, removed := n.children[at].without(hash, name, depth+1)
	if !removed {
		return n, false
	}
	children := *n.children
	if children[at] = child; children == [useFanOut]*useNode{} {
		return nil, true
	}
	return &useNode{children: &children}, true
}

// all yields the devices in use. The order is undefined.
func (n *useNode) all(yield func(string, DeviceUsage) bool) bool {
	if n == nil {
		return true
	}
	for i := range n.uses {
		if !yield(n.uses[i].name, n.uses[i].usage) {
			return false
		}
	}
	if n.children != nil {
		for _, child := range n.children {
			if !child.all(yield) {
				return false
			}
		}
	}
	return true
}

// newUseMap makes a useMap from a Go map that is not empty.
func newUseMap(devices map[string]DeviceUsage) useMap {
	uses := make([]namedUse, 0, len(devices))
	for name, usage := range devices {
		if !usage.empty() {
			uses = append(uses, namedUse{maphash.String(useSeed, name), name, usage})
		}
	}
	return useMap{newUseNode(uses, 0), len(uses)}
}
