package search

import (
	"math"
	"slices"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/objective"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
)

const (
	// improvementSteps is how many times it may be worked out what a choice costs, to find a better
	// solution than the first. Most nodes have few choices that differ; where there are many, the
	// first ones tried are the best.
	improvementSteps = 256
	// Where there are many devices, each of these takes longer, and there are fewer: as many as have
	// mostAssessed devices looked at in all, but fewestSteps in any case.
	mostAssessed = improvementSteps * 512
	fewestSteps  = 16
	// triesPerStep is how many devices may be tried for each of these.
	triesPerStep = 4
	// closePerTry is how many devices can be looked at for how close they are, in the time that it
	// takes to try one.
	closePerTry = 16
	// joinedPerTry is how many devices can be joined with others that are alike in that time.
	joinedPerTry = 256
)

// Judgement is what an objective says of a plan. Without an objective it is zero.
type Judgement struct {
	// Value is that of the plan, FirstFit that of the first solution.
	Value, FirstFit objective.Value
	// Compared is how many solutions were compared, the first one included.
	Compared int
	// Whole is how many things of the node the plan leaves wholly free, and FirstFitWhole how many the
	// first solution would, see objective.Groups. 0 unless the view has CountWhole.
	Whole, FirstFitWhole int
}

// improvement looks for the best solution, once there is one. It is another depth-first search with
// the same rules, in another order: candidates that cost least come first, and what costs more than
// the best solution so far is left out. It never changes which alternatives were chosen, and it has
// no say in whether there is a solution.
type improvement struct {
	*Search
	room *room
	// steps are those taken, tries the devices tried, and limit and mostTries how many there may be.
	// When they are used up it has ended.
	steps, tries, limit, mostTries int
	ended                          bool
	// stuck is set when devices ran out for some request: from then on it is asked first whether
	// there can be enough.
	stuck bool

	best solution
	seen map[string]struct{}
	Judgement
}

// improve replaces the solution that was found by the best one that it finds. If it ends early that
// is the best one so far. restore brings the first one back, for whoever makes results of it.
func (s *Search) improve() (j Judgement, restore func()) {
	i := improvement{Search: s, room: &s.memory.room}
	i.limit = min(improvementSteps, s.allowance.Own(s.steps+s.prospects.cost()))
	i.mostTries = i.limit * triesPerStep
	first, placed := s.solution(), s.placements()
	restore = func() { s.placed = placed }
	s.clear()
	s.classes.reset(len(s.pools))
	i.room.start(s)
	defer i.room.release()
	if effort := len(i.room.state.Devices) * i.room.objective.Effort(); effort > 0 {
		i.limit = min(i.limit, max(fewestSteps, mostAssessed/effort))
	}
	s.judging = i.room
	defer func() { s.judging = nil }()
	if !i.replay(first) {
		restore() // The context has ended, or a budget that derived attributes need.
		return Judgement{}, restore
	}
	i.best, i.Compared = first, 1
	i.Value, _ = i.room.value()
	i.FirstFit = i.Value
	i.countWhole()
	i.FirstFitWhole = i.Whole
	i.undo()
	if s.hasChoices() {
		i.claim(0)
	}
	// Constraints may not like the best solution in the driver's order, if values are of types that
	// are not known.
	if !s.put(s.inOrder(i.best)) && !s.put(i.best) {
		restore()
		i.Value, i.Whole = i.FirstFit, i.FirstFitWhole
	}
	return i.Judgement, restore
}

// hasChoices reports whether any request can have other devices than all that it wants.
func (s *Search) hasChoices() bool {
	for _, c := range s.Claims() {
		for slot := range c.Slots {
			if !s.selected(c, slot).All() {
				return true
			}
		}
	}
	return false
}

// step counts a choice of which it is to be worked out what it costs. It returns false when there
// may be no more.
func (i *improvement) step() bool {
	i.steps++
	i.ended = i.ended || i.steps > i.limit || i.steps%stepsPerCheck == 0 && i.ctx.Err() != nil
	return !i.ended
}

// try counts devices that are tried.
func (i *improvement) try(devices int) {
	i.tries += devices
	i.ended = i.ended || i.tries > i.mostTries
}

// take places a device if that is possible.
func (i *improvement) take(r *task.Request, at location) bool {
	if !r.All() && !i.hasRoom(r, at) {
		return false
	}
	if placed, err := i.place(r, at); err != nil || placed != placedOK {
		return false
	}
	list := i.placed[r.Claim.Index]
	i.room.changed(i.Search, &list[len(list)-1], true)
	return true
}

// giveBack undoes the last take for the request's claim.
func (i *improvement) giveBack(r *task.Request) {
	list := i.placed[r.Claim.Index]
	p := list[len(list)-1]
	i.unplace(r)
	i.room.changed(i.Search, &p, false)
}

// replay places a solution, so that the room follows.
func (i *improvement) replay(list solution) bool {
	for _, chosen := range list {
		if !i.take(chosen.request, chosen.at) {
			return false
		}
	}
	return true
}

// undo takes back all that is placed.
func (i *improvement) undo() {
	for claim := len(i.placed) - 1; claim >= 0; claim-- {
		for n := len(i.placed[claim]); n > 0; n-- {
			i.giveBack(i.placed[claim][n-1].request)
		}
	}
}

// claim tries devices for the claims from index on.
func (i *improvement) claim(index int) {
	if index < len(i.Claims()) {
		i.slot(i.Claims()[index], 0)
		return
	}
	i.compare()
}

// slot tries devices for the requests of a claim from index on, and for all claims after it.
func (i *improvement) slot(c *task.Claim, index int) {
	if index == len(c.Slots) {
		i.claim(c.Index + 1)
		return
	}
	if i.ended || i.seenBefore(c, index) {
		return
	}
	r := i.selected(c, index)
	if r.All() {
		i.allOf(r, index)
		return
	}
	i.devicesFrom(r, index, i.count[r.ID], i.usableFor(r))
}

// allOf places all devices that a request wants.
func (i *improvement) allOf(r *task.Request, slot int) {
	taken := 0
	for _, at := range i.wanted[r.ID] {
		if !i.candidates(r, at.pool).usable.Has(at.device) || i.Search.taken.forRequest(r, at) || !i.take(r, at) {
			break
		}
		taken++
	}
	if taken == len(i.wanted[r.ID]) {
		i.slot(r.Claim, slot+1)
	}
	for range taken {
		i.giveBack(r)
	}
}

// usableFor returns the candidates of a request in the driver's order.
func (i *improvement) usableFor(r *task.Request) (list []location) {
	for pool := range i.pools {
		c := i.candidates(r, pool)
		for device := range c.usable.All() {
			if at := (location{pool, device}); !i.Search.taken.forRequest(r, at) {
				list = append(list, at)
			}
		}
	}
	return list
}

// devicesFrom takes the missing number of devices out of a list, and goes on. Each set of devices
// is tried once: what was tried in one place is not in the list for the places after it.
func (i *improvement) devicesFrom(r *task.Request, slot, missing int, list []location) {
	if missing <= 0 {
		i.slot(r.Claim, slot+1)
		return
	}
	if i.ended || i.stuck && i.impossible(demand{r, missing, cursor{}}, r.Claim, slot) {
		return
	}
	choices := i.closeEnough(r, i.choicesFrom(list))
	i.try(1 + len(choices)/closePerTry + len(list)/joinedPerTry)
	if missing == 1 && i.isLast(r.Claim, slot) {
		i.finish(r, choices)
		return
	}
	choices = i.rank(r, choices)
	rest := list[:0:0]
	for k := range choices {
		rest = append(rest, choices[k].alike...)
	}
	i.stuck = i.stuck || len(rest) < missing
	for k := range choices {
		if len(rest) < missing || i.ended {
			return
		}
		if c := &choices[k]; !i.cannotWin(c.least) && i.take(r, c.alike[0]) {
			i.devicesFrom(r, slot, missing-1, rest[1:])
			i.giveBack(r)
		}
		rest = rest[len(choices[k].alike):]
	}
}

// isLast reports whether no request comes after the one at a slot.
func (i *improvement) isLast(c *task.Claim, slot int) bool {
	if slot+1 < len(c.Slots) {
		return false
	}
	for _, next := range i.Claims()[c.Index+1:] {
		if len(next.Slots) > 0 {
			return false
		}
	}
	return true
}

// finish compares the solutions that each choice for the last device makes.
func (i *improvement) finish(r *task.Request, choices []choice) {
	for k := range choices {
		if !i.step() {
			return
		}
		if i.take(r, choices[k].alike[0]) {
			i.compare()
			i.giveBack(r)
		}
	}
	i.stuck = i.stuck || len(choices) == 0
}

// compare notes the solution that is placed if it is the best one so far. Of equal ones the first
// in the driver's order is the best.
func (i *improvement) compare() {
	i.Compared++
	value, _ := i.room.value()
	switch order := value.Compare(i.Value); {
	case order > 0:
		return
	case order == 0 && i.best.isBefore(i.solution()):
		return
	}
	i.Value, i.best = value, i.solution()
	i.countWhole()
}

func (i *improvement) countWhole() {
	if i.view.CountWhole {
		i.Whole = i.room.groups.WholeUnits(&i.room.state)
	}
}

// cannotWin reports whether what is at least as bad as that is no part of a better solution.
func (i *improvement) cannotWin(least objective.Value) bool { return least.Compare(i.Value) > 0 }

// closeEnough leaves out choices with which less would be ready than in the best solution is, or as much
// but further apart.
func (i *improvement) closeEnough(r *task.Request, choices []choice) []choice {
	return slices.DeleteFunc(choices, func(c choice) bool {
		with := i.room.with(i.Search, r, c.alike[0])
		with.Cost = math.Inf(-1)
		return i.cannotWin(with)
	})
}

// choice are devices that are alike for all that is ahead: the first one stands for all.
type choice struct {
	alike []location
	// value is that of what is placed with the first one, least what it is at least if more is
	// placed; zero if that is not known.
	value, least objective.Value
}

// choicesFrom joins devices that are alike. The order stays that of the list.
func (i *improvement) choicesFrom(list []location) []choice {
	choices := make([]choice, 0, len(list))
	if !i.interchangeable() {
		for n := range list {
			choices = append(choices, choice{alike: list[n : n+1 : n+1]})
		}
		return choices
	}
	// By class: the last choice of that class plus 1, and for each choice the one before, likewise.
	// Only these can be alike, and of thousands of devices most can be in classes of their own.
	last, before := i.memory.last[:0], i.memory.before[:0]
	for n, at := range list {
		class := i.classNumber(at)
		for len(last) <= class {
			last = append(last, 0)
		}
		k := last[class] - 1
		for k >= 0 && !i.alike(choices[k].alike[0], at) {
			k = before[k] - 1
		}
		if k < 0 {
			choices, before = append(choices, choice{alike: list[n : n+1 : n+1]}), append(before, last[class])
			last[class] = len(choices)
			continue
		}
		choices[k].alike = append(choices[k].alike, at)
	}
	i.memory.last, i.memory.before = last, before
	return choices
}

// rank sorts choices so that those which cost least come first, those that cost the same in the
// order that they had. If too many steps would be taken to find out what each costs, only how
// many are ready and how close they are counts. Choices that cannot be part of a better solution are left out.
func (i *improvement) rank(r *task.Request, choices []choice) []choice {
	if r.Admin || len(choices) > max(1, (i.limit-i.steps)/2) {
		i.rankByCloseness(r, choices)
		return choices
	}
	ranked := choices[:0]
	for _, c := range choices {
		if !i.step() || !i.take(r, c.alike[0]) {
			continue
		}
		c.value, c.least = i.room.value()
		i.giveBack(r)
		if !i.cannotWin(c.least) {
			ranked = append(ranked, c)
		}
	}
	slices.SortStableFunc(ranked, func(a, b choice) int { return a.value.Compare(b.value) })
	return ranked
}

func (i *improvement) rankByCloseness(r *task.Request, choices []choice) {
	for k := range choices {
		with := i.room.with(i.Search, r, choices[k].alike[0])
		choices[k].value, choices[k].least = with, with
		choices[k].least.Cost = math.Inf(-1)
	}
	slices.SortStableFunc(choices, func(a, b choice) int { return a.value.Compare(b.value) })
}
