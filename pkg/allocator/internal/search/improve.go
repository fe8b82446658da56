package search

import (
	"math"
	"slices"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/objective"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
)

const (
	// improvementSteps limits the choices whose cost is calculated to find a better solution than the first.
	// Most nodes have few choices that differ; if there are many, the first ones tried are the best.
	improvementSteps = 256
	// With many devices, each step takes longer, and the limit is lower: about mostAssessed devices are
	// assessed in total, but at least fewestSteps steps are allowed.
	mostAssessed = improvementSteps * 512
	fewestSteps  = 16
	// triesPerStep is the number of devices that may be tried per step.
	triesPerStep = 4
	// closePerTry is the number of devices whose closeness can be checked in the time of one try.
	closePerTry = 16
	// joinedPerTry is the number of devices that can be grouped with equivalent ones in the time of one try.
	joinedPerTry = 256
)

// A Judgement is an objective's assessment of a plan. It is zero without an objective.
type Judgement struct {
	// Value is the value of the plan, FirstFit that of the first solution.
	Value, FirstFit objective.Value
	// Compared is the number of compared solutions, including the first.
	Compared int
	// Whole is the number of the node's units that the plan leaves wholly free, FirstFitWhole that of the
	// first solution; see objective.Groups for units. Both are 0 unless the view has CountWhole.
	Whole, FirstFitWhole int
}

// improvement looks for the best solution after there is one. It is another depth-first search with the same rules,
// in another order: candidates with the least cost come first, and candidates that cost more than the best solution
// so far are skipped. It never changes the chosen alternatives, and never decides whether there is a solution.
type improvement struct {
	*Search
	room *room
	// steps and tries are the numbers of steps taken and of devices tried, limit and mostTries their limits.
	// ended is set when a limit is exceeded or the context has ended.
	steps, tries, limit, mostTries int
	ended                          bool
	// stuck is set after some request ran out of devices. From then on the search first checks whether there can be enough.
	stuck bool

	best solution
	seen map[string]struct{}
	Judgement
}

// improve replaces the solution by the best one that it finds, or by the best one so far if it ends early.
// restore brings the first solution back, in case the best one has no valid results.
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
	// The best solution in the driver's order may break constraints with values of unknown types.
	if !s.put(s.inOrder(i.best)) && !s.put(i.best) {
		restore()
		i.Value, i.Whole = i.FirstFit, i.FirstFitWhole
	}
	return i.Judgement, restore
}

// hasChoices reports whether any request has a choice of devices.
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

// step counts a choice whose cost will be calculated. It returns false if the limit is exceeded.
func (i *improvement) step() bool {
	i.steps++
	i.ended = i.ended || i.steps > i.limit || i.steps%stepsPerCheck == 0 && i.ctx.Err() != nil
	return !i.ended
}

// try counts tried devices.
func (i *improvement) try(devices int) {
	i.tries += devices
	i.ended = i.ended || i.tries > i.mostTries
}

// take places a device if possible.
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

// giveBack reverses the last take for the request's claim.
func (i *improvement) giveBack(r *task.Request) {
	list := i.placed[r.Claim.Index]
	p := list[len(list)-1]
	i.unplace(r)
	i.room.changed(i.Search, &p, false)
}

// replay places a solution and updates the room.
func (i *improvement) replay(list solution) bool {
	for _, chosen := range list {
		if !i.take(chosen.request, chosen.at) {
			return false
		}
	}
	return true
}

// undo removes all placements.
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

// slot tries devices for the requests of a claim from index on, and for all later claims.
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

// devicesFrom takes the missing number of devices from a list, and goes on. It tries each set of devices
// once: the list for later places excludes devices that were tried in earlier places.
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

// isLast reports whether there is no request after a slot.
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

// finish compares the solutions for each choice of the last device.
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

// compare records the current solution if it is the best so far. Among equal solutions, the first in the
// driver's order is the best.
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

// cannotWin reports whether a value that is at best least cannot belong to a better solution.
func (i *improvement) cannotWin(least objective.Value) bool { return least.Compare(i.Value) > 0 }

// closeEnough removes choices that are worse than the best solution, regardless of their cost: with more
// devices that failed or are not ready or, if these are equal, with devices further apart.
func (i *improvement) closeEnough(r *task.Request, choices []choice) []choice {
	return slices.DeleteFunc(choices, func(c choice) bool {
		with := i.room.with(i.Search, r, c.alike[0])
		with.Cost = math.Inf(-1)
		return i.cannotWin(with)
	})
}

// choice holds devices that are equivalent for the rest of the search: the first stands for all.
type choice struct {
	alike []location
	// value is the value of the placements with the first device, least its lower bound if more is placed.
	// Both are zero if unknown.
	value, least objective.Value
}

// choicesFrom groups devices that are equivalent, in the order of the list.
func (i *improvement) choicesFrom(list []location) []choice {
	choices := make([]choice, 0, len(list))
	if !i.interchangeable() {
		for n := range list {
			choices = append(choices, choice{alike: list[n : n+1 : n+1]})
		}
		return choices
	}
	// By class: the last choice of that class plus 1, and for each choice the previous one, likewise. Only
	// these can be alike; of thousands of devices, most may be in different classes.
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

// rank sorts choices by cost, and keeps the order of equal ones. It leaves out choices that cannot belong to
// a better solution. If the steps do not suffice to calculate each cost, only readiness and closeness count.
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
