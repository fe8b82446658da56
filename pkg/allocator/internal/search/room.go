package search

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/capacity"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/objective"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// room is the free part of the node, as an objective sees it. It follows the search: a placement or its
// removal recalculates the free part of the device, and of those that draw from the same counter sets, from
// the state of the search. So a removal leaves no trace.
type room struct {
	objective *objective.Objective
	state     objective.State
	scratch   objective.Scratch
	// before is the worth before the pod.
	before objective.Worth

	facts []*objective.Facts // by pool, nil for pools that cannot be allocated from
	first []int              // by pool: the index in state.Devices of its first device
	// By index in state.Devices. open devices are usable on the node and without holder, given devices were
	// placed by the search for exclusive use, whole devices are without any use.
	open, given, whole []bool

	// left is the node's CPU and memory beside the pod and the placed devices. It may be negative.
	left Resources

	groups objective.Groups
	near   objective.Near
	// notReady counts placed devices that are not ready, see isReady.
	notReady int
	// failed counts earlier failures of the placed devices, see NodeView.Failed.
	failed int
}

// start reads the free part of the node. The search must not have placed anything.
func (m *room) start(s *Search) {
	m.objective, m.notReady, m.failed = s.view.Objective, 0, 0
	m.facts, m.first, m.state.Devices = m.facts[:0], m.first[:0], m.state.Devices[:0]
	m.open, m.given, m.whole = m.open[:0], m.given[:0], m.whole[:0]
	m.state.Holders, m.state.Takes = m.state.Holders[:0], append(m.state.Takes[:0], 0)
	for i, pool := range s.view.Pools {
		var facts *objective.Facts
		m.first = append(m.first, len(m.state.Devices))
		if pool.State == inventory.Complete {
			facts = objective.FactsOf(pool)
			m.addPool(s, i, facts)
		}
		m.facts = append(m.facts, facts)
	}
	m.groups.Start(m.objective, &objective.Site{
		Memory: s.Settings().Evaluator.Memory(), Lists: s.Settings().Features.ListTypeAttributes, Pools: s.view.Pools,
		First: m.first, State: &m.state, Whole: m.whole, Units: len(m.state.Holders),
	})
	m.near.Start(&m.groups)
	free, asked := s.view.Free, s.view.Asked
	if free == (Resources{}) {
		m.state.MilliCPU, m.state.Memory = -1, -1 // Unknown.
		m.before = m.worth()
		return
	}
	m.leave(free)
	m.before = m.worth()
	m.leave(Resources{MilliCPU: free.MilliCPU - asked.MilliCPU, Memory: free.Memory - asked.Memory})
}

// leave sets what is left of the node's CPU and memory.
func (m *room) leave(left Resources) {
	m.left = left
	m.state.MilliCPU, m.state.Memory = max(left.MilliCPU, 0), max(left.Memory, 0)
}

// takeOfNode updates what is left of the node's CPU and memory if a placed device stands for, or needs, some of them.
func (m *room) takeOfNode(s *Search, p *placement, sign int64) {
	if !bitset.Has(s.view.Pools[p.at.pool].OfNode, p.at.device) || m.state.MilliCPU < 0 {
		return
	}
	milliCPU, memory := objective.TakenOfNode(s.device(p.at), p.consumed)
	m.leave(Resources{MilliCPU: m.left.MilliCPU - sign*milliCPU, Memory: m.left.Memory - sign*memory})
}

func (m *room) release() {
	m.objective = nil
	clear(m.facts)
	m.groups.Release()
}

// addPool adds the devices of a pool. Devices that the node cannot use have size 0.
func (m *room) addPool(s *Search, index int, facts *objective.Facts) {
	pool := s.view.Pools[index]
	hidden, unsupported := s.hidden(pool), s.unsupported(s.view.Node, pool)
	usage := s.pools[index].usage
	held := s.occupied(usage, pool)
	facts.AddTo(&m.state, m.objective.Kinds(s.ctx, s.Settings().Evaluator, pool), m.objective.EveryKind(), usage.Occupied(pool))
	for i := range pool.Devices {
		usable := pool.Reachable.Has(i) && !bitset.Has(hidden, i) && !bitset.Has(unsupported, i) &&
			!(s.Settings().RefuseOfNode && bitset.Has(pool.OfNode, i))
		if !usable {
			m.state.Devices[m.first[index]+i].Size = 0
		}
		m.open = append(m.open, usable && !bitset.Has(held, i) && (s.NeedsDevices() || !s.repels(pool, i)))
		m.given, m.whole = append(m.given, false), append(m.whole, false)
	}
	for i := range pool.Devices {
		m.refresh(s, location{index, i})
	}
}

// repels reports whether a taint keeps likely requests away from a device. It matters only for pods that take
// no devices: a pod that tolerates the taint must not prefer the device because nobody else wants it.
func (s *Search) repels(pool *inventory.NodePool, device int) bool {
	return s.Settings().Features.DeviceTaints && bitset.Has(pool.Tainted, device) &&
		slices.ContainsFunc(pool.Devices[device].Taints, func(taint resourceapi.DeviceTaint) bool {
			return taint.Effect == resourceapi.DeviceTaintEffectNoSchedule || taint.Effect == resourceapi.DeviceTaintEffectNoExecute
		})
}

// index returns the index of a device in state.Devices.
func (m *room) index(at location) int { return m.first[at.pool] + at.device }

func (m *room) unit(at location) int32 { return m.state.Devices[m.index(at)].Unit }

// refresh recalculates the free part of a device.
func (m *room) refresh(s *Search, at location) {
	i := m.index(at)
	d := &m.state.Devices[i]
	d.Free, m.whole[i] = 0, false
	if !m.open[i] || m.given[i] {
		return
	}
	p, own := &s.pools[at.pool], s.ownShares(at)
	if own == nil && !bitset.Has(p.usage.Shared(p.pool), at.device) {
		if !bitset.Has(p.pool.Partitions, at.device) || s.couldDraw(at) {
			d.Free, m.whole[i] = d.Size, true
		}
		return
	}
	device := s.device(at)
	d.Free = d.Size * objective.Left(device, p.usage.Device(device.Name).Shares, own)
}

// ownShares returns the amounts that the search has taken of a shareable device, or nil. It excludes admin
// access, which limits the search itself but no other pod.
func (s *Search) ownShares(at location) capacity.Amounts {
	own := s.sharing[at]
	switch {
	case own == nil || own.shares == 0:
		return nil
	case !s.HasAdmin():
		return own.taken
	}
	var taken capacity.Amounts
	for _, placements := range s.placed {
		for i := range placements {
			if p := &placements[i]; p.at == at && !p.request.Admin {
				if taken == nil {
					taken = make(capacity.Amounts)
				}
				taken.Add(p.consumed)
			}
		}
	}
	return taken
}

// couldDraw reports whether counters and compatibility groups currently allow a device.
func (s *Search) couldDraw(at location) bool {
	s.returnAdminDraws(at.pool, true)
	defer s.returnAdminDraws(at.pool, false)
	if !s.pools[at.pool].covers(at.device) {
		return false
	}
	return !s.Settings().Features.CompatibilityGroups ||
		!s.pools[at.pool].usage.HasCompatibilityGroups(s.view.Pools[at.pool]) || s.Joins(at.pool, at.device)
}

// returnAdminDraws returns the draws that the search made with admin access, or takes them again. They limit
// the search itself but no other pod.
func (s *Search) returnAdminDraws(pool int, back bool) {
	if !s.HasAdmin() {
		return
	}
	for _, placements := range s.placed {
		for i := range placements {
			p := &placements[i]
			if !p.request.Admin || !p.drawn || p.at.pool != pool {
				continue
			}
			for _, draw := range s.view.Pools[pool].Counters.Draws(p.at.device) {
				if back {
					draw.ReturnTo(s.pools[pool].left)
				} else {
					draw.TakeFrom(s.pools[pool].left)
				}
			}
		}
	}
}

// isReady reports whether the pod can run without waiting for binding conditions of a device (KEP-5007).
// Without the feature, devices with binding conditions are not candidates.
func (s *Search) isReady(at location) bool {
	return !bitset.Has(s.view.Pools[at.pool].Conditional, at.device)
}

// failures returns how often a device failed to get ready for the pod.
func (s *Search) failures(at location) int {
	if s.view.Failed == nil {
		return 0
	}
	return s.view.Failed(s.view.Pools[at.pool].ID, s.device(at).Name)
}

// changed updates the room after the search made or removed a placement. Admin access takes nothing from others.
func (m *room) changed(s *Search, p *placement, made bool) {
	sign := -1
	if made {
		sign = 1
	}
	if !s.isReady(p.at) {
		m.notReady += sign
	}
	m.failed += sign * s.failures(p.at)
	m.takeOfNode(s, p, int64(sign))
	if p.request.Admin {
		return
	}
	if made {
		m.near.Add(p.at.pool, p.at.device)
	} else {
		m.near.Remove()
	}
	if !p.shared {
		m.given[m.index(p.at)] = made
	}
	m.follow(s, p.at)
	if p.drawn {
		m.state.Hold(m.unit(p.at), made)
		for _, draw := range s.view.Pools[p.at.pool].Counters.Draws(p.at.device) {
			for _, device := range s.view.Pools[p.at.pool].Drawing(draw.Set) {
				m.follow(s, location{p.at.pool, device})
			}
		}
	}
}

// follow is refresh, plus an update of the groups.
func (m *room) follow(s *Search, at location) {
	i := m.index(at)
	was := m.whole[i]
	m.refresh(s, at)
	if is := m.whole[i]; is != was {
		m.groups.Change(m.state.Devices[i].Unit, is)
	}
}

func (m *room) worth() objective.Worth { return m.objective.Assess(&m.state, &m.scratch) }

// value returns the value of the current placements, and its lower bound if more is placed.
func (m *room) value() (value, least objective.Value) {
	after := m.worth()
	broken := m.groups.Broken()
	value = objective.Value{
		Failed: m.failed, NotReady: m.notReady, Apart: m.near.Apart(), Cost: m.objective.Cost(m.before, after, broken), Broken: broken,
	}
	least = objective.Value{Failed: value.Failed, NotReady: value.NotReady, Apart: value.Apart, Cost: m.objective.AtLeast(m.before, after, broken)}
	return value, least
}

// with returns the value with another device, as far as it is known without placing the device: readiness and
// closeness, but not the cost.
func (m *room) with(s *Search, r *task.Request, at location) objective.Value {
	value := objective.Value{Failed: m.failed + s.failures(at), NotReady: m.notReady, Apart: m.near.Apart()}
	if !s.isReady(at) {
		value.NotReady++
	}
	if !r.Admin { // Closeness does not matter for admin access.
		value.Apart = m.near.ApartWith(at.pool, at.device)
	}
	return value
}
