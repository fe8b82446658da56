package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// explainRequest inspects all devices for a request.
func (q inquiry) explainRequest(r *task.Request) Request {
	e := Request{
		Request: r.Reference(), Class: r.ClassName, All: r.All(), Admin: r.Admin,
		Wanted: q.Wanted(r), Shortage: q.shortage(r).text,
	}
	var obstacles [CauseCount]obstacleBuilder
	var failing failures
	var contended contention
	pools := q.inspect(r)
	for i := range pools {
		in := &pools[i]
		e.Published += len(in.pool.Devices)
		e.OfClass += in.ofClass().Len()
		for device := range in.selection.Failed.All() {
			failing.add(in.failure(device))
		}
		for device := range in.selection.Matches.All() {
			e.Matching++
			cause := in.cause(device)
			obstacles[cause].add(in, device, cause)
			if cause == Available {
				contended.add(in, device)
			}
		}
	}
	e.Contended = contended.sorted()
	e.Available, e.Failing = obstacles[Available].devices, failing.sorted()
	for cause := Available + 1; int(cause) < CauseCount; cause++ {
		if b := &obstacles[cause]; b.devices > 0 {
			e.Obstacles = append(e.Obstacles, Obstacle{
				Cause: cause, Devices: b.devices, Details: b.details.sorted(), Claims: b.holders(), CounterSets: b.sets.sorted(),
			})
		}
	}
	return e
}

// failures counts the ways in which selectors fail, by their text.
type failures map[string]*Failure

// add counts a device.
func (f *failures) add(err *selector.Error) {
	if *f == nil {
		*f = make(failures)
	}
	text := err.WithoutDevice()
	if (*f)[text] == nil {
		(*f)[text] = &Failure{Text: text, Device: err.Device, Slice: err.Slice}
	}
	(*f)[text].Devices++
}

func (f *failures) sorted() []Failure {
	return mostFirst(*f, func(f *Failure) int { return f.Devices })
}

// mostFirst returns the counted values, most devices first, then by text.
func mostFirst[T any](counted map[string]*T, devices func(*T) int) []T {
	var list []T
	for _, text := range slices.SortedFunc(maps.Keys(counted), func(a, b string) int {
		return cmp.Or(cmp.Compare(devices(counted[b]), devices(counted[a])), cmp.Compare(a, b))
	}) {
		list = append(list, *counted[text])
	}
	return list
}

// obstacleBuilder collects the devices with one cause.
type obstacleBuilder struct {
	devices int
	details details
	// claims holds, by claim, the devices (driver/pool/device) that it holds.
	claims map[ledger.ClaimRef]map[string]bool
	sets   counterSets
}

func (b *obstacleBuilder) add(in *inspection, device int, cause Cause) {
	b.devices++
	published := &in.pool.Devices[device]
	name := in.pool.ID.String() + "/" + published.Name
	switch cause {
	case Unsupported:
		for _, gate := range in.features(device) {
			b.details.add(gate, nil)
		}
	case OfNode:
		for _, resource := range in.ofNode(device) {
			b.details.add(resource, nil)
		}
	case TooSmall:
		for _, unfit := range in.unfitCapacities(published) {
			b.details.add(unfit.name+": "+unfit.text, nil)
		}
	case AttributeMissing:
		b.details.add(in.missingAttribute(device), nil)
	case Tainted:
		for _, taint := range in.taints(device) {
			b.details.add(taintText(taint), nil)
		}
	case Full:
		for _, short := range in.shortCapacities(published) {
			b.details.add(short.name, short.of(name))
		}
		b.addUsers(in, published.Name)
	case CounterShort:
		for _, short := range in.shortCounters(device) {
			b.details.add(in.pool.ID.String()+"/"+short.name, short.of(name))
			drawing := in.drawing(short.name)
			b.sets.add(in, &short, drawing)
			for _, other := range drawing {
				b.addUsers(in, other)
			}
		}
	case CounterUnknown:
		for _, other := range in.unknown() {
			b.details.add(in.pool.ID.String()+"/"+other, nil)
			b.addUsers(in, other)
		}
	case Held:
		b.addUsers(in, published.Name)
	}
}

// addUsers adds the claims that have a device or a share of it.
func (b *obstacleBuilder) addUsers(in *inspection, device string) {
	if b.claims == nil {
		b.claims = make(map[ledger.ClaimRef]map[string]bool)
	}
	for _, claim := range in.users(device) {
		if b.claims[claim] == nil {
			b.claims[claim] = make(map[string]bool)
		}
		b.claims[claim][in.pool.ID.String()+"/"+device] = true
	}
}

// holders returns the claims, most devices first.
func (b *obstacleBuilder) holders() []Holder {
	var list []Holder
	for claim, devices := range b.claims {
		list = append(list, Holder{Claim: claim, Devices: len(devices)})
	}
	slices.SortFunc(list, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Devices, a.Devices), compareClaims(a.Claim, b.Claim))
	})
	return list
}

// taintText returns key=value:effect, or key:effect without a value.
func taintText(taint resourceapi.DeviceTaint) string {
	if taint.Value == "" {
		return fmt.Sprintf("%s:%s", taint.Key, taint.Effect)
	}
	return fmt.Sprintf("%s=%s:%s", taint.Key, taint.Value, taint.Effect)
}

// details collects details by name.
type details map[string]*Detail

// add counts a device. It keeps the least shortfall, the first of equal ones.
func (d *details) add(name string, short *Shortfall) {
	if *d == nil {
		*d = make(details)
	}
	known := (*d)[name]
	if known == nil {
		known = &Detail{Name: name}
		(*d)[name] = known
	}
	known.Devices++
	if short != nil && (known.Shortfall == nil || quantity.Compare(short.By, known.Shortfall.By) < 0) {
		known.Shortfall = short
	}
}

func (d *details) sorted() []Detail {
	return mostFirst(*d, func(d *Detail) int { return d.Devices })
}

// of returns the shortfall as that of a device.
func (s *shortfall) of(device string) *Shortfall {
	return &Shortfall{Device: device, Needed: s.needed, Left: s.left, By: s.by()}
}
