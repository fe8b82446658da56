package allocator_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// TestSameAsOracle compares with an allocator that is simple enough to trust: the same devices for the same
// requests, and errors for the same inputs.
func TestSameAsOracle(t *testing.T) {
	forScenarios(t, 1_000_000_000, scenarioCount(6_000), func(t *testing.T, s scenario, celCache *cel.Cache) outcome {
		got, gotErr := s.run(t.Context(), allocator.New, celCache)
		if errors.Is(gotErr, allocator.ErrGaveUp) {
			return gaveUp
		}
		if len(devicesIn(s.slices)) > oracleDevices {
			return leftOut
		}
		want, wantErr := newOracle(t.Context(), s, celCache).solve()
		if errors.Is(wantErr, errOracleSteps) {
			return leftOut
		}
		if errorClass(wantErr) != errorClass(gotErr) {
			t.Errorf("the oracle's error is %v, ours is %v\n%s", wantErr, gotErr, s)
		}
		if diff := diffOf(want, answersIn(got)); diff != "" {
			t.Errorf("allocation differs (-oracle +ours):\n%s\n%s", diff, s)
		}
		return outcomeOf(got, gotErr)
	})
}

// answersIn extracts from results the parts that the oracle predicts.
func answersIn(results []resourceapi.AllocationResult) [][]answer {
	var answers [][]answer
	for _, result := range results {
		var devices []answer
		for _, r := range result.Devices.Results {
			devices = append(devices, answer{r.Request, r.Driver, r.Pool, r.Device, ptr.Deref(r.AdminAccess, false), r.ShareID != nil, r.ConsumedCapacity})
		}
		answers = append(answers, devices)
	}
	return answers
}

// oracle finds devices in an obviously correct way: it lists one device after the other, in all combinations
// in upstream's order, and checks the whole list each time. It prunes nothing, keeps no state but the list
// and shares no code with the allocator.
//
// It knows all features. It leaves out config, node selectors and the other parts of a result except devices,
// shares and consumed capacity (see the validity checks). It also leaves out nodes with more than
// oracleDevices devices, and searches of more than oracleSteps steps; the tests count these.
type oracle struct {
	scenario
	ctx      context.Context
	celCache *cel.Cache

	pools    []oraclePool
	devices  []device // of all pools that can be allocated from, in order
	wishes   [][][]*wish
	chosen   []choice
	verdicts map[question]bool
	steps    int
	// every, if set, is called for every solution, and the search goes on. After the first solution, devices
	// that cannot be judged are left out.
	every func()
	found bool
	// doubt is set if a device or request could not be judged and was left out, as the API demands.
	doubt bool
}

const (
	oracleDevices = 30
	oracleSteps   = 20_000
)

var errOracleSteps = errors.New("too many combinations for the oracle")

// wish is a request or one of its alternatives.
type wish struct {
	claim, slot int
	parent      string // "" unless it is an alternative
	resourceapi.DeviceSubRequest
	admin bool
	all   []device // for allocation mode All
	err   error    // why it cannot be met, whatever else there is
}

func (w *wish) name() string {
	if w.parent != "" {
		return w.parent + "/" + w.Name
	}
	return w.Name
}

type choice struct {
	wish *wish
	device
}

type question struct {
	wish *wish
	id   structured.DeviceID
}

// answer is the part of a result that is compared.
type answer struct {
	Request, Driver, Pool, Device string
	Admin, Share                  bool
	Consumed                      amounts
}

func newOracle(ctx context.Context, s scenario, celCache *cel.Cache) *oracle {
	o := &oracle{scenario: s, ctx: ctx, celCache: celCache, verdicts: make(map[question]bool)}
	o.pools = poolsOf(s)
	for _, pool := range o.pools {
		if pool.trouble == "" {
			o.devices = append(o.devices, devicesIn(pool.here)...)
		}
	}
	for claim := range s.claims {
		var slots [][]*wish
		for slot := range s.claims[claim].Spec.Devices.Requests {
			slots = append(slots, wishesOf(claim, slot, &s.claims[claim].Spec.Devices.Requests[slot]))
		}
		o.wishes = append(o.wishes, slots)
	}
	return o
}

func wishesOf(claim, slot int, request *resourceapi.DeviceRequest) []*wish {
	if e := request.Exactly; e != nil {
		return []*wish{{claim: claim, slot: slot, admin: ptr.Deref(e.AdminAccess, false), DeviceSubRequest: resourceapi.DeviceSubRequest{
			Name: request.Name, DeviceClassName: e.DeviceClassName, Selectors: e.Selectors,
			AllocationMode: e.AllocationMode, Count: e.Count, Tolerations: e.Tolerations,
			Capacity: e.Capacity, DerivedAttributes: e.DerivedAttributes,
		}}}
	}
	var wishes []*wish
	for _, alternative := range request.FirstAvailable {
		wishes = append(wishes, &wish{claim: claim, slot: slot, parent: request.Name, DeviceSubRequest: alternative})
	}
	return wishes
}

// solve returns the devices of each claim, or nil if there is no solution.
func (o *oracle) solve() ([][]answer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	found, err := o.fillSlot(0, 0)
	if err != nil {
		return nil, err
	}
	if !found {
		if slices.ContainsFunc(o.pools, func(p oraclePool) bool { return p.trouble == "invalid" }) {
			return nil, structured.ErrFailedAllocationOnNode
		}
		return nil, nil
	}
	answers := make([][]answer, len(o.claims))
	for _, c := range o.chosen {
		a := answer{
			Request: c.wish.name(), Driver: c.slice.Spec.Driver, Pool: c.slice.Spec.Pool.Name, Device: c.Name, Admin: c.wish.admin,
		}
		if o.features.ConsumableCapacity && ptr.Deref(c.AllowMultipleAllocations, false) {
			a.Share = true
			if !o.takesNothing(c.wish) {
				a.Consumed, _, _ = o.consumed(c.wish.Capacity, c.device)
			}
		}
		answers[c.wish.claim] = append(answers[c.wish.claim], a)
	}
	for claim := range o.claims {
		if o.asAPI {
			break
		}
		if err := selectorError(o.chosenFor(claim)); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// check finds errors that do not depend on the search.
func (o *oracle) check() error {
	for claim, slots := range o.wishes {
		least := 0
		for slot, wishes := range slots {
			if o.asAPI {
				o.checkEach(wishes)
				continue
			}
			if err := o.checkFeatures(&o.claims[claim].Spec.Devices.Requests[slot]); err != nil {
				return err
			}
			for _, w := range wishes {
				if o.classes[w.DeviceClassName] == nil {
					return errors.New("no such class")
				}
				if err := o.findAll(w); err != nil {
					return err
				}
			}
			least += int(slices.MinFunc(wishes, func(a, b *wish) int { return cmp.Compare(a.Count, b.Count) }).Count)
			if least > resourceapi.AllocationResultsMaxSize {
				return fmt.Errorf("claim %d wants too many devices", claim)
			}
		}
	}
	return nil
}

// findAll determines the devices that All means, and thereby their number.
func (o *oracle) findAll(w *wish) error {
	if w.AllocationMode != resourceapi.DeviceAllocationModeAll {
		return nil
	}
	for _, pool := range o.pools {
		if pool.trouble != "" {
			return errors.New("not all devices are known")
		}
	}
	for _, d := range o.devices {
		selectable, err := o.selectable(w, d)
		if err != nil {
			return err
		}
		if !selectable {
			continue
		}
		fits, err := o.fitsWhole(w, d)
		if err != nil {
			return err
		}
		if fits {
			w.all = append(w.all, d)
		}
	}
	w.Count = int64(len(w.all))
	return nil
}

func (o *oracle) selectable(w *wish, d device) (bool, error) {
	if len(d.BindingConditions) > 0 && !o.features.DeviceBindingAndStatus {
		return false, nil
	}
	known, found := o.verdicts[question{w, d.id()}]
	if found {
		return known, nil
	}
	selectors := slices.Concat(o.classes[w.DeviceClassName].Spec.Selectors, w.Selectors)
	matches, err := matchesAll(o.ctx, o.celCache, d, selectors)
	if err != nil {
		return false, err
	}
	matches = matches && reaches(o.node, d)
	o.verdicts[question{w, d.id()}] = matches
	return matches, nil
}

// fillSlot chooses devices for a request and everything after it.
func (o *oracle) fillSlot(claim, slot int) (bool, error) {
	switch {
	case claim == len(o.claims) && o.every != nil:
		o.found = true
		o.every()
		return false, nil
	case claim == len(o.claims):
		return true, nil
	case slot == len(o.wishes[claim]):
		return o.fillSlot(claim+1, 0)
	}
	for _, w := range o.wishes[claim][slot] {
		if w.err != nil {
			continue
		}
		before := len(o.chosen)
		found, err := o.fill(w)
		if found || err != nil {
			return found, err
		}
		o.chosen = o.chosen[:before]
	}
	return false, nil
}

func (o *oracle) fill(w *wish) (bool, error) {
	if int(w.Count)+len(o.chosenFor(w.claim)) > resourceapi.AllocationResultsMaxSize {
		return false, nil
	}
	if w.AllocationMode == resourceapi.DeviceAllocationModeAll {
		return o.chooseAll(w)
	}
	return o.choose(w, int(w.Count), o.devices)
}

// choose picks the missing number of devices from those given.
func (o *oracle) choose(w *wish, missing int, from []device) (bool, error) {
	if missing == 0 {
		return o.fillSlot(w.claim, w.slot+1)
	}
	for i, d := range from {
		usable, err := o.usable(w, d)
		if err != nil && o.asAPI && !errors.Is(err, errOracleSteps) {
			o.doubt = true
			continue
		}
		if err != nil && !(o.found && !errors.Is(err, errOracleSteps)) {
			return false, err
		}
		if !usable || err != nil {
			continue
		}
		before := len(o.chosen)
		o.chosen = append(o.chosen, choice{w, d})
		verdict, err := o.judge()
		switch {
		case err != nil && o.found:
			verdict = unusable
		case err != nil:
			return false, err
		}
		if verdict == fine {
			found, err := o.choose(w, missing-1, from[i+1:])
			if found || err != nil {
				return found, err
			}
		}
		o.chosen = o.chosen[:before]
	}
	return false, nil
}

// usable tells whether a device can be tried for a wish at all.
func (o *oracle) usable(w *wish, d device) (bool, error) {
	if o.steps++; o.steps > oracleSteps {
		return false, errOracleSteps
	}
	if o.isTaken(w, d) {
		return false, nil
	}
	selectable, err := o.selectable(w, d)
	if err != nil || !selectable {
		return false, err
	}
	return o.hasRoom(w, d)
}

// chooseAll takes all devices or none. Breaking a constraint is an error: the
// claim makes no sense.
func (o *oracle) chooseAll(w *wish) (bool, error) {
	if len(w.all) == 0 {
		return false, nil
	}
	for _, d := range w.all {
		if o.isTaken(w, d) {
			return false, nil
		}
		o.chosen = append(o.chosen, choice{w, d})
		verdict, err := o.judge()
		switch {
		case err != nil:
			return false, err
		case verdict == unusable:
			return false, nil
		case verdict == breaksConstraint && o.asAPI:
			return false, nil
		case verdict == breaksConstraint:
			return false, errors.New("all devices are wanted, but a constraint says otherwise")
		}
		o.chosen = o.chosen[:len(o.chosen)-1]
		if room, err := o.hasRoom(w, d); err != nil || !room {
			return false, err
		}
		o.chosen = append(o.chosen, choice{w, d})
	}
	return o.fillSlot(w.claim, w.slot+1)
}
