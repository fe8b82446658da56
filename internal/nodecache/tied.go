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

// tied is what is known of nodes for a task that could use devices which several nodes reach. Nodes that see the same of all pools that
// matter are a group: there are devices on all of them or on none. What devices cost differs from node to node, and is not known.
type tied struct {
	of     map[int32]*group  // by number of the node; those that are not in there were never looked at
	groups map[string]*group // by what the nodes see
	// numbers stand for what is seen of pools in the keys of groups. That is not kept alive: drivers replace it.
	numbers map[weak.Pointer[inventory.NodePool]]uint64
	// due are groups of which it is to be found out whether they have devices.
	due []*group
	// having is how many nodes are in groups that may have devices.
	having int
	// published is how often a shared pool had changed: with each time, nodes may see something else.
	published uint64
}

// group are nodes that see the same.
type group struct {
	pools []inventory.PoolID
	node  int32 // the one that is looked at for all, nobody for nodes that are gone
	nodes int
	state state
	isDue bool
}

const nobody = -1

func newTied(published uint64) *tied {
	return &tied{of: make(map[int32]*group), groups: make(map[string]*group), numbers: make(map[weak.Pointer[inventory.NodePool]]uint64), published: published}
}

// number is another one for everything that is seen, also for what was not there any more when the next came to be.
func (t *tied) number(pool *inventory.NodePool) uint64 {
	seen := weak.Make(pool)
	number, known := t.numbers[seen]
	if !known {
		number = uint64(len(t.numbers))
		t.numbers[seen] = number
	}
	return number
}

// isOld reports whether most of what is kept was seen by nobody for a while.
func (t *tied) isOld() bool { return len(t.numbers) > 4*len(t.of)+goneAtMost }

// What a node takes, a group with its key, and a number.
const (
	memberBytes = 48
	groupBytes  = 256
	numberBytes = 48
)

func (t *tied) bytes() int {
	return memberBytes*len(t.of) + groupBytes*len(t.groups) + numberBytes*len(t.numbers)
}

func (t *tied) setState(g *group, s state) {
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

// next takes groups that are due and still have nodes, up to some number.
func (t *tied) next(most int) (groups []*group) {
	for len(t.due) > 0 && len(groups) < most {
		g := t.due[0]
		t.due = t.due[1:]
		if g.isDue = false; g.nodes > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// remove forgets a node. What is known of its group may be what was found there.
func (t *tied) remove(id int32) {
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

// followTied notes what is not known any more.
func (a *Answer) followTied() {
	x := a.index
	changes, end, complete := x.log.Since(a.position)
	a.position = end
	if a.names != x.names || !complete || a.tied.published != x.published || a.tied.isOld() {
		a.begin(x.names)
		a.tied = newTied(x.published)
		return
	}
	for _, c := range changes {
		switch {
		case c.pool != (inventory.PoolID{}):
			for _, g := range a.tied.groups {
				if slices.Contains(g.pools, c.pool) {
					a.tied.setState(g, unknown)
				}
			}
		case !c.resized:
			a.tied.remove(c.id)
		}
	}
}

// updateTied is update for tasks that could use devices which several nodes reach. Taking one of them can have something change on
// all nodes, no two of which need to see the same.
func (x *Index) updateTied(ctx context.Context, a *Answer, q *Question) {
	a.followTied()
	t := a.tied
	var undecided []*group
	for first := true; ctx.Err() == nil && (first || q.All || t.having < x.Enough); first = false {
		most := x.AtOnce
		if !q.All && t.having >= x.Enough {
			most = x.growth()
		}
		ids := a.nextTied(most)
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

// nextTied returns nodes that were never looked at.
func (a *Answer) nextTied(most int) (ids []int32) {
	nodes := len(a.names.names)
	if len(a.tied.of) == nodes {
		return nil
	}
	for i, from := 0, a.cursor; i < nodes && len(ids) < most; i++ {
		id := int32((from + i) % nodes)
		if a.tied.of[id] == nil {
			ids = append(ids, id)
			a.cursor = int(id) + 1
		}
	}
	return ids
}

// join finds the group of a node.
func (x *Index) join(ctx context.Context, t *tied, id int32, q *Question) {
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

// seenBy returns the pools that matter to a task on a node, and a key of what is seen of them there. What a node declares decides as well
// which devices it can use (KEP-5304).
func (x *Index) seenBy(ctx context.Context, t *tied, node *v1.Node, task *allocator.Task) (key []byte, pools []inventory.PoolID) {
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

// judge finds out whether groups have devices, and returns those of which that cannot be said yet.
func (x *Index) judge(ctx context.Context, t *tied, q *Question, groups []*group) (pending []*group) {
	unrated := *q
	unrated.Rate = nil
	for _, g := range groups {
		l := x.lookAt(ctx, x.names.names[g.node], x.inventory.OnNode, &unrated)
		if l.pending {
			pending = append(pending, g)
		}
		t.setState(g, l.place.state)
	}
	return pending
}
