package search

import (
	"math"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/capacity"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/objective"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// room is what is free on the node, as an objective sees it. It follows the search: what a device
// that is placed takes away is worked out anew for it and for those that draw from the same counter
// sets, from what the search knows anyhow. So taking it back leaves no trace.
type room struct {
	objective *objective.Objective
	state     objective.State
	scratch   objective.Scratch
	// before is what that was worth before the pod.
	before objective.Worth

	facts []*objective.Facts // by pool, nil for those that cannot be allocated from
	first []int              // by pool: the index in state.Devices of its first device
	// By index in state.Devices: devices that the node can use and nobody holds; those that the
	// search has placed for one alone; those of which nothing is used.
	open, given, whole []bool

	groups objective.Groups
	near   objective.Near
	// notReady counts placed devices that are not ready, see isReady.
	notReady int
	// failed counts the earlier failures of these, see NodeView.Failed.
	failed int
}

// start looks at what is free. The search must not have placed anything.
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
		m.state.MilliCPU, m.state.Memory = -1, -1 // Not known.
		m.before = m.worth()
		return
	}
	m.state.MilliCPU, m.state.Memory = max(free.MilliCPU, 0), max(free.Memory, 0)
	m.before = m.worth()
	m.state.MilliCPU, m.state.Memory = max(free.MilliCPU-asked.MilliCPU, 0), max(free.Memory-asked.Memory, 0)
}

func (m *room) release() {
	m.objective = nil
	clear(m.facts)
	m.groups.Release()
}

// addPool adds the devices of a pool. Those that the node cannot use have no size.
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
		m.open = append(m.open, usable && !bitset.Has(held, i))
		m.given, m.whole = append(m.given, false), append(m.whole, false)
	}
	for i := range pool.Devices {
		m.refresh(s, location{index, i})
	}
}

// index of a device in state.Devices.
func (m *room) index(at location) int { return m.first[at.pool] + at.device }

func (m *room) unit(at location) int32 { return m.state.Devices[m.index(at)].Unit }

// refresh works out what is free of a device.
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

// ownShares is what the search has taken of a device that can be shared, nil if nothing. What it
// has taken with admin access counts for the search, but for nobody else.
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

// couldDraw reports whether counters and compatibility groups allow a device as things stand.
func (s *Search) couldDraw(at location) bool {
	s.returnAdminDraws(at.pool, true)
	defer s.returnAdminDraws(at.pool, false)
	if !s.pools[at.pool].covers(at.device) {
		return false
	}
	return !s.Settings().Features.CompatibilityGroups ||
		!s.pools[at.pool].usage.HasCompatibilityGroups(s.view.Pools[at.pool]) || s.Joins(at.pool, at.device)
}

// returnAdminDraws puts back what the search has drawn with admin access, which counts for the
// search but for nobody else, or takes it again.
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

// isReady reports whether nobody has to do anything for a device before the pod can run (KEP-5007).
// Without the feature, devices with binding conditions are no candidates.
func (s *Search) isReady(at location) bool {
	return !bitset.Has(s.view.Pools[at.pool].Conditional, at.device)
}

// failures counts how often a device has failed to get ready for the pod.
func (s *Search) failures(at location) int {
	if s.view.Failed == nil {
		return 0
	}
	return s.view.Failed(s.view.Pools[at.pool].ID, s.device(at).Name)
}

// changed follows a placement that the search has just made, or taken back. Admin access takes
// nothing from anybody.
func (m *room) changed(s *Search, p *placement, made bool) {
	sign := -1
	if made {
		sign = 1
	}
	if !s.isReady(p.at) {
		m.notReady += sign
	}
	m.failed += sign * s.failures(p.at)
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

// follow is refresh for a device that belongs to groups.
func (m *room) follow(s *Search, at location) {
	i := m.index(at)
	was := m.whole[i]
	m.refresh(s, at)
	if is := m.whole[i]; is != was {
		m.groups.Change(m.state.Devices[i].Unit, is)
	}
}

func (m *room) worth() objective.Worth { return m.objective.Assess(&m.state, &m.scratch) }

// value is that of what is placed. least is what it is at least if more is placed.
func (m *room) value() (value, least objective.Value) {
	after := m.worth()
	broken := m.groups.Broken()
	value = objective.Value{
		Failed: m.failed, NotReady: m.notReady, Apart: m.near.Apart(), Cost: m.objective.Cost(m.before, after, broken), Broken: broken,
	}
	least = objective.Value{Failed: value.Failed, NotReady: value.NotReady, Apart: value.Apart, Cost: math.Inf(-1)}
	if cost, known := m.objective.AtLeast(m.before, after, broken); known {
		least.Cost = cost
	}
	return value, least
}

// with is what is known of the value with another device without taking it: how many are not ready, and
// how close they are. What it costs is left out.
func (m *room) with(s *Search, r *task.Request, at location) objective.Value {
	value := objective.Value{Failed: m.failed + s.failures(at), NotReady: m.notReady, Apart: m.near.Apart()}
	if !s.isReady(at) {
		value.NotReady++
	}
	if !r.Admin { // It does not matter where these are.
		value.Apart = m.near.ApartWith(at.pool, at.device)
	}
	return value
}
