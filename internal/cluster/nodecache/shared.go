package nodecache

import (
	"context"
	"encoding/binary"
	"slices"
	"weak"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// shared holds the results for a task that could use devices that several nodes reach. Nodes with the
// same view of all pools that matter form a group: either all of them have devices or none. The
// cost of devices differs between nodes, and is unknown.
type shared struct {
	of     map[int32]*group  // by number of the node; nodes that were never looked at are absent
	groups map[string]*group // by the nodes' view of the pools
	// numbers replace views of pools in the keys of groups. They do not keep the views in memory
	// when drivers replace them.
	numbers map[weak.Pointer[inventory.NodePool]]uint64
	// due lists the groups to be judged.
	due []*group
	// having counts the nodes in groups that may have devices.
	having int
	// published is the count of changes of shared pools when shared was created: with each change,
	// nodes may have another view.
	published uint64
}

// group holds nodes with the same view.
type group struct {
	pools []inventory.PoolID
	node  int32 // the node that is looked at for all; nobody for deleted nodes
	nodes int
	state state
	isDue bool
}

const nobody = -1

func newShared(published uint64) *shared {
	return &shared{of: make(map[int32]*group), groups: make(map[string]*group), numbers: make(map[weak.Pointer[inventory.NodePool]]uint64), published: published}
}

// number returns a number that is unique to a view, even among views that no longer exist.
func (t *shared) number(pool *inventory.NodePool) uint64 {
	seen := weak.Make(pool)
	number, known := t.numbers[seen]
	if !known {
		number = uint64(len(t.numbers))
		t.numbers[seen] = number
	}
	return number
}

// isOld reports whether most of the numbers stand for views that no node has any more.
func (t *shared) isOld() bool { return len(t.numbers) > 4*len(t.of)+goneAtMost }

// Memory of a node, of a group with its key, and of a number.
const (
	memberBytes = 48
	groupBytes  = 256
	numberBytes = 48
)

func (t *shared) bytes() int {
	return memberBytes*len(t.of) + groupBytes*len(t.groups) + numberBytes*len(t.numbers)
}

func (t *shared) setState(g *group, s state) {
	if g.state.mayHave() {
		t.having -= g.nodes
	}
	if g.state = s; s.mayHave() {
		t.having += g.nodes
	}
	if s == unknown && !g.isDue {
		g.isDue = true
		t.due = append(t.due, g)
	}
}

// next removes and returns groups that are due and still have nodes, up to a limit.
func (t *shared) next(most int) (groups []*group) {
	for len(t.due) > 0 && len(groups) < most {
		g := t.due[0]
		t.due = t.due[1:]
		if g.isDue = false; g.nodes > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// remove drops a node. If its group was judged by this node, the group's state becomes unknown.
func (t *shared) remove(id int32) {
	g := t.of[id]
	if g == nil {
		return
	}
	delete(t.of, id)
	if g.state.mayHave() {
		t.having--
	}
	if g.nodes--; g.node == id && g.nodes > 0 {
		for other, of := range t.of {
			if of == g {
				g.node = other
				break
			}
		}
		t.setState(g, unknown)
	}
}

// followTied marks the outdated results.
func (a *Answer) followTied() {
	x := a.index
	changes, end, complete := x.log.Since(a.position)
	a.position = end
	if a.names != x.names || !complete || a.shared.published != x.published || a.shared.isOld() {
		a.begin(x.names)
		a.shared = newShared(x.published)
		return
	}
	for _, c := range changes {
		switch {
		case c.pool != (inventory.PoolID{}):
			for _, g := range a.shared.groups {
				if slices.Contains(g.pools, c.pool) {
					a.shared.setState(g, unknown)
				}
			}
		case !c.resized:
			a.shared.remove(c.id)
		}
	}
}

// updateTied is update for tasks that could use devices that several nodes reach. An allocation of
// one of them can change the results of all nodes, and no two nodes need to have the same view.
func (x *Index) updateTied(ctx context.Context, a *Answer, q *Question) {
	a.followTied()
	t := a.shared
	var undecided []*group
	for first := true; ctx.Err() == nil && (first || q.All || t.having < x.Enough); first = false {
		most := x.AtOnce
		if !q.All && t.having >= x.Enough {
			most = x.growth()
		}
		ids := a.unknownTied(most)
		for _, id := range ids {
			x.join(ctx, t, id, q)
		}
		groups := t.next(x.AtOnce)
		if len(groups) == 0 && len(ids) == 0 {
			break
		}
		pending := x.judge(ctx, t, q, groups)
		undecided = append(undecided, pending...)
		if len(pending) > 0 && len(pending) == len(groups) {
			break
		}
	}
	a.complete = len(t.due) == 0 && len(t.of) == len(a.names.names)
	for _, g := range undecided {
		g.isDue = true
		t.due = append(t.due, g)
	}
}

// unknownTied returns nodes that were never looked at, up to a limit.
func (a *Answer) unknownTied(most int) []int32 {
	if len(a.shared.of) == len(a.names.names) {
		return nil
	}
	return a.unknown(nil, most, func(id int32) bool { return a.shared.of[id] == nil })
}

// join adds a node to its group.
func (x *Index) join(ctx context.Context, t *shared, id int32, q *Question) {
	key, pools := []byte("gone"), []inventory.PoolID(nil)
	node := x.node(x.names.names[id])
	if node != nil {
		key, pools = x.seenBy(ctx, t, node, q.Task)
	}
	g := t.groups[string(key)]
	if g == nil {
		g = &group{pools: pools, state: lacking, node: nobody}
		t.groups[string(key)] = g
	}
	if g.nodes == 0 && node != nil {
		g.node = id
		t.setState(g, unknown)
	}
	t.of[id] = g
	if g.nodes++; g.state.mayHave() {
		t.having++
	}
}

// seenBy returns the pools that matter to a task on a node, and a key for the node's view of them.
// The features that the node declares also decide which devices it can use (KEP-5304), so they are
// part of the key.
func (x *Index) seenBy(ctx context.Context, t *shared, node *v1.Node, task *allocator.Task) (key []byte, pools []inventory.PoolID) {
	var numbers []byte
	for _, pool := range x.inventory.OnNode(node) {
		if task.Interested(ctx, pool) {
			pools = append(pools, pool.ID)
			numbers = binary.AppendUvarint(numbers, t.number(pool))
		}
	}
	key = append(binary.AppendUvarint([]byte{'='}, uint64(len(pools))), numbers...)
	for _, feature := range node.Status.DeclaredFeatures {
		key = append(binary.AppendUvarint(key, uint64(len(feature))), feature...)
	}
	return key, pools
}

// judge determines whether groups have devices, and returns the groups that are still pending.
func (x *Index) judge(ctx context.Context, t *shared, q *Question, groups []*group) (pending []*group) {
	unrated := *q
	unrated.Rate = nil
	for _, g := range groups {
		l := x.lookAt(ctx, x.names.names[g.node], x.inventory.OnNode, &unrated)
		if l.pending {
			pending = append(pending, g)
		}
		t.setState(g, l.result.state)
	}
	return pending
}
