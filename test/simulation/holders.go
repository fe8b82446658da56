package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

type deviceID struct{ driver, pool, device string }

func idOf(r *resourceapi.DeviceRequestAllocationResult) deviceID {
	return deviceID{r.Driver, r.Pool, r.Device}
}

type counterID struct{ driver, pool, set, counter string }

// published holds the devices that drivers have published since the history began. It keeps devices that are gone, and the maximum of
// each capacity and counter: a scheduler may not have seen a reduction yet.
type published struct {
	devices map[deviceID]resourceapi.Device
	// shared holds the devices that could be shared at some time, alone those that could not.
	shared, alone map[deviceID]bool
	// kinds holds the numbers of kinds of capacity that a device had at some time.
	kinds    map[deviceID][]int
	capacity map[deviceID]map[resourceapi.QualifiedName]int64
	counters map[counterID]int64
}

func newPublished() *published {
	return &published{
		devices: map[deviceID]resourceapi.Device{}, shared: map[deviceID]bool{}, alone: map[deviceID]bool{}, kinds: map[deviceID][]int{},
		capacity: map[deviceID]map[resourceapi.QualifiedName]int64{}, counters: map[counterID]int64{},
	}
}

// add adds the devices and counters of a slice.
func (p *published) add(slice *resourceapi.ResourceSlice) {
	for _, device := range slice.Spec.Devices {
		id := deviceID{slice.Spec.Driver, slice.Spec.Pool.Name, device.Name}
		p.devices[id] = device
		if !slices.Contains(p.kinds[id], len(device.Capacity)) {
			p.kinds[id] = append(p.kinds[id], len(device.Capacity))
		}
		if isShared(&device) {
			p.shared[id] = true
		} else {
			p.alone[id] = true
		}
		if p.capacity[id] == nil {
			p.capacity[id] = map[resourceapi.QualifiedName]int64{}
		}
		for name, capacity := range device.Capacity {
			p.capacity[id][name] = max(p.capacity[id][name], capacity.Value.Value())
		}
	}
	for _, set := range slice.Spec.SharedCounters {
		for name, counter := range set.Counters {
			id := counterID{slice.Spec.Driver, slice.Spec.Pool.Name, set.Name, name}
			p.counters[id] = max(p.counters[id], counter.Value.Value())
		}
	}
}

func isShared(device *resourceapi.Device) bool {
	return device.AllowMultipleAllocations != nil && *device.AllowMultipleAllocations
}

// use is an allocated device, or a share of one. Admin access is no use, because it takes nothing from other claims.
type use struct {
	claim  *object
	result *resourceapi.DeviceRequestAllocationResult
}

func usesOf(claims ...*object) (all []use) {
	for _, claim := range claims {
		results := resultsOf(claim)
		for i := range results {
			if !isAdmin(results[i]) {
				all = append(all, use{claim, &results[i]})
			}
		}
	}
	return all
}

// clash is a conflict between claims.
type clash struct {
	text   string
	claims []*object
}

// clashes returns the conflicts between the devices of a claim and those of other claims.
func (p *published) clashes(claim *object, others []*object) (all []clash) {
	uses, seen := usesOf(append(others, claim)...), map[any]bool{}
	for _, own := range usesOf(claim) {
		id := idOf(own.result)
		if seen[id] {
			continue
		}
		seen[id] = true
		all = append(all, p.clashesOn(id, uses)...)
		for _, consumption := range p.devices[id].ConsumesCounters {
			for name := range consumption.Counters {
				counter := counterID{id.driver, id.pool, consumption.CounterSet, name}
				if !seen[counter] {
					seen[counter] = true
					all = append(all, p.overdraws(counter, uses)...)
				}
			}
		}
	}
	return all
}

// clashesOn: a device has one holder, or different shares that together consume no more than its capacity.
func (p *published) clashesOn(id deviceID, uses []use) (all []clash) {
	var holders []*object
	alone, shares, consumed := false, map[string]bool{}, map[resourceapi.QualifiedName]int64{}
	for _, u := range uses {
		if idOf(u.result) != id {
			continue
		}
		holders = append(holders, u.claim)
		if u.result.ShareID == nil {
			alone = true
			continue
		}
		if share := string(*u.result.ShareID); shares[share] {
			all = append(all, clash{fmt.Sprintf("share %s of device %v is allocated twice, to claims %s", share, id, namesOf(holders)), holders})
		} else {
			shares[share] = true
		}
		for name, amount := range u.result.ConsumedCapacity {
			consumed[name] += amount.Value()
		}
	}
	if alone && len(holders) > 1 {
		all = append(all, clash{fmt.Sprintf("device %v is allocated to claims %s", id, namesOf(holders)), holders})
	}
	for name, amount := range consumed {
		if has := p.capacity[id][name]; amount > has {
			all = append(all, clash{fmt.Sprintf("device %v has %d of %s; claims %s consume %d", id, has, name, namesOf(holders), amount), holders})
		}
	}
	return all
}

// overdraws: the allocated devices consume no more of a counter than its value. A device consumes only once for all its shares.
func (p *published) overdraws(counter counterID, uses []use) []clash {
	var holders []*object
	consumed, seen := int64(0), map[deviceID]bool{}
	for _, u := range uses {
		id, amount := idOf(u.result), int64(0)
		if id.driver == counter.driver && id.pool == counter.pool {
			for _, consumption := range p.devices[id].ConsumesCounters {
				if consumption.CounterSet == counter.set {
					consumes := consumption.Counters[counter.counter].Value
					amount += consumes.Value()
				}
			}
		}
		if amount == 0 {
			continue
		}
		holders = append(holders, u.claim)
		if !seen[id] {
			seen[id] = true
			consumed += amount
		}
	}
	if has := p.counters[counter]; consumed > has {
		return []clash{{fmt.Sprintf("counter %v has %d; claims %s consume %d", counter, has, namesOf(holders), consumed), holders}}
	}
	return nil
}

// namesOf returns the names of claims, each once.
func namesOf(claims []*object) string {
	var names []string
	for _, claim := range claims {
		if name := claim.text("name"); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " and ")
}

// malformed returns the faults of an allocation that are visible without other claims. A device has shares if and only if it allows
// them, each share records its consumed capacity, and only requests for admin access get it.
func (p *published) malformed(claim *resourceapi.ResourceClaim) (all []string) {
	admin := map[string]bool{}
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		admin[request.Name] = request.Exactly != nil && request.Exactly.AdminAccess != nil && *request.Exactly.AdminAccess
	}
	for i := range claim.Status.Allocation.Devices.Results {
		r := &claim.Status.Allocation.Devices.Results[i]
		id := idOf(r)
		isShare := r.ShareID != nil
		if isShare && !p.shared[id] || !isShare && !p.alone[id] {
			all = append(all, fmt.Sprintf("device %v could ever be shared: %t, and claim %s has a share of it: %t", id, p.shared[id], claim.Name, isShare))
		}
		if isShare && !isAdmin(*r) && !slices.Contains(p.kinds[id], len(r.ConsumedCapacity)) {
			all = append(all, fmt.Sprintf("device %v has had %v kinds of capacity, and claim %s consumes %d of them", id, p.kinds[id], claim.Name, len(r.ConsumedCapacity)))
		}
		if isAdmin(*r) != admin[r.Request] {
			all = append(all, fmt.Sprintf("claim %s has device %v with admin access: %t, and request %s asks for that: %t", claim.Name, id, isAdmin(*r), r.Request, admin[r.Request]))
		}
	}
	return all
}

// checkAllocation: a device that is not shared has one holder, and the claims consume no more of anything than was published.
func (w *World) checkAllocation(c *collection, now *object) {
	var beside []*object
	for _, o := range c.sorted() {
		if isAllocated(o.fields) && o != now {
			beside = append(beside, o)
		}
	}
	claim := claimOfObject(now)
	for _, text := range w.published.malformed(claim) {
		if !isByForeign(now) {
			w.fail("%s", text)
		}
	}
	for _, found := range w.published.clashes(now, beside) {
		switch {
		case w.guard != nil:
			w.fail("%s, and the guard has allowed it", found.text)
		case slices.ContainsFunc(found.claims, isByForeign):
			w.contested.Store(true) // Only the guard prevents that.
			w.note("%s, one of them by the foreign scheduler", found.text)
		case w.overlaps.Load() || len(w.replicas) > 0 && w.replicas[len(w.replicas)-1].scheduler == others:
			w.note("%s; one of them has to yield", found.text) // See checkHolders.
		default:
			w.fail("%s", found.text)
		}
	}
	w.note("claim %s gets %s", now.text("name"), devicesOf(now))
	w.attach(claim)
}

// checkHolders: of several claims in conflict, only one has pods on nodes. Two schedulers may both allocate, but one of them yields
// before it binds a pod.
func (w *World) checkHolders(pod *v1.Pod, claim *object) {
	var others []*object
	for _, o := range w.server.store.collections["resource.k8s.io/v1/resourceclaims"].sorted() {
		if o != claim && isAllocated(o.fields) && w.hasBound(o) && (w.guard != nil || !isByForeign(o) && !isByForeign(claim)) {
			others = append(others, o)
		}
	}
	for _, found := range w.published.clashes(claim, others) {
		w.fail("pod %s is bound with claim %s while others have pods on nodes: %s", pod.Name, claim.text("name"), found.text)
	}
}

// clashesLeft returns the conflicts between claims that remain once nothing happens any more: one of the claims should have yielded.
// It returns nothing after a conflict with the foreign scheduler.
func (w *World) clashesLeft() (all []string) {
	if w.contested.Load() {
		return nil
	}
	w.server.store.mutex.Lock()
	defer w.server.store.mutex.Unlock()
	var before []*object
	for _, o := range w.server.store.collections["resource.k8s.io/v1/resourceclaims"].sorted() {
		if !isAllocated(o.fields) {
			continue
		}
		for _, found := range w.published.clashes(o, before) {
			all = append(all, "Clash: "+found.text)
		}
		before = append(before, o)
	}
	return all
}

// isByForeign reports whether the foreign scheduler has allocated a claim.
func isByForeign(o *object) bool {
	entries, _ := o.metadata()["managedFields"].([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		if entry["subresource"] == "status" && entry["manager"] == foreign {
			return true
		}
	}
	return false
}

func devicesOf(o *object) string {
	text := ""
	for _, r := range resultsOf(o) {
		text += " " + r.Pool + "/" + r.Device
		for _, name := range slices.Sorted(maps.Keys(r.ConsumedCapacity)) {
			amount := r.ConsumedCapacity[name]
			text += fmt.Sprintf(" (%s %s)", amount.String(), name)
		}
		if isAdmin(r) {
			text += " (admin access)"
		}
	}
	return text
}

func isAdmin(r resourceapi.DeviceRequestAllocationResult) bool {
	return r.AdminAccess != nil && *r.AdminAccess
}

func resultsOf(o *object) []resourceapi.DeviceRequestAllocationResult {
	return claimOfObject(o).Status.Allocation.Devices.Results
}

// claimOfObject returns a stored claim. The caller must not change it.
func claimOfObject(o *object) *resourceapi.ResourceClaim {
	return o.typed(Resource{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaim"}).(*resourceapi.ResourceClaim)
}
