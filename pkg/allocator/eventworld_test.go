package allocator_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// eventObjects are the objects of one kind: as the server has them, and in the state that the inventory or
// the ledger was last told about.
type eventObjects[T any] struct {
	server, told map[string]*T
	stale        map[string]bool // objects whose state on the server differs
}

func newEventObjects[T any]() eventObjects[T] {
	return eventObjects[T]{make(map[string]*T), make(map[string]*T), make(map[string]bool)}
}

// set changes an object on the server; nil deletes it.
func (o *eventObjects[T]) set(name string, object *T) {
	o.stale[name] = true
	if o.server[name] = object; object == nil {
		delete(o.server, name)
	}
}

// read returns the object on the server, and records that it was told.
func (o *eventObjects[T]) read(name string) *T {
	delete(o.stale, name)
	if o.told[name] = o.server[name]; o.told[name] == nil {
		delete(o.told, name)
	}
	return o.told[name]
}

// eventWorld is a cluster whose events reach the inventory and the ledger in any order,
// late and repeatedly. What these show is compared with a state made afresh of the objects
// that they were told about.
type eventWorld struct {
	t        *testing.T
	g        *generator
	celCache *cel.Cache
	solver   *allocator.Solver
	store    *inventory.Store
	usage    *ledger.Ledger
	nodes    []*v1.Node

	slices eventObjects[resourceapi.ResourceSlice]
	rules  eventObjects[resourceapi.DeviceTaintRule]
	claims eventObjects[resourceapi.ResourceClaim]
	// seen is the newest state of each claim that the ledger was told about, by events or as
	// the answer to a write.
	seen map[string]*resourceapi.ResourceClaim
	// inFlight are plans that may have been written; answers are the server's replies.
	inFlight map[types.UID]*resourceapi.AllocationResult
	answers  map[types.UID]*resourceapi.ResourceClaim
	version  int
	// published is the growth of generations.
	published int64
}

// firstGeneration leaves room for older ones.
const firstGeneration = 1000

// newEventWorld begins with the settings of the plugin.
func newEventWorld(t *testing.T, seed int64, celCache *cel.Cache) *eventWorld {
	w := &eventWorld{
		t: t, g: newGenerator(seed, nil), celCache: celCache, usage: ledger.New(),
		slices: newEventObjects[resourceapi.ResourceSlice](), rules: newEventObjects[resourceapi.DeviceTaintRule](), claims: newEventObjects[resourceapi.ResourceClaim](),
		seen:     make(map[string]*resourceapi.ResourceClaim),
		inFlight: make(map[types.UID]*resourceapi.AllocationResult), answers: make(map[types.UID]*resourceapi.ResourceClaim),
	}
	s := w.g.scenario()
	w.g.s.features = pick(w.g, defaultFeatures, allocator.Supported)
	w.nodes = []*v1.Node{s.node, b.Node("node-1", "zone", "1", "rack", "a")}
	w.solver = &allocator.Solver{
		Features: w.g.s.features, Classes: s.classes, Evaluator: selector.NewEvaluator(celCache), KeepShared: true, AsUpstream: true,
	}
	w.store = inventory.NewStore(allocator.InventoryOptions(w.g.s.features))
	w.usage.Pools = func(id inventory.PoolID) *inventory.NodePool {
		if pool := w.store.Pool(id); pool != nil {
			return pool.Everywhere()
		}
		return nil
	}
	for _, slice := range s.slices {
		slice.Spec.Pool.Generation += firstGeneration
		w.slices.set(slice.Name, slice)
	}
	return w
}

// step performs a random action.
func (w *eventWorld) step() {
	switch w.g.Intn(10) {
	case 0:
		w.publish()
	case 1:
		w.taint()
	case 2:
		w.node()
	case 3, 4:
		w.newClaim()
	case 5:
		w.foreign()
	case 6:
		w.endClaim()
	default:
		w.schedule()
	}
	for range w.g.Intn(3) {
		w.goOn()
	}
	if w.g.oneIn(6) {
		w.tell(false)
	} else if w.g.oneIn(8) {
		w.tell(true)
	}
}

// publish replaces the slices of a pool, and may remove some. Like a driver it uses another generation each
// time; it may be an older one.
func (w *eventWorld) publish() {
	w.published += 2
	generation := firstGeneration + pick(w.g, w.published, w.published, w.published, -w.published)
	for _, name := range slices.Sorted(maps.Keys(w.slices.server)) {
		if w.g.oneIn(4) {
			w.slices.set(name, nil)
		}
	}
	for _, slice := range w.g.pool(w.g.Intn(3)) {
		slice.Spec.Pool.Generation += generation
		w.slices.set(slice.Name, slice)
	}
}

func (w *eventWorld) taint() {
	name := fmt.Sprint("rule-", w.g.Intn(4))
	if rule := w.rules.server[name]; rule != nil && w.g.oneIn(3) {
		rule = rule.DeepCopy()
		rule.Status.Conditions = append(rule.Status.Conditions, metav1.Condition{Type: "EvictionInProgress"})
		w.rules.set(name, rule)
		return
	}
	if w.g.oneIn(3) {
		w.rules.set(name, nil)
		return
	}
	rule := &resourceapi.DeviceTaintRule{}
	rule.Name = name
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: pick(w.g, "t1", "t2"), Effect: pick(w.g,
		resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNone)}
	if !w.g.oneIn(8) {
		rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{
			Driver: pick(w.g, nil, ptr.To(b.Driver), ptr.To("nic.example.com")),
			Pool:   pick(w.g, nil, ptr.To("pool-0"), ptr.To("pool-1")),
			Device: pick(w.g, nil, ptr.To("dev-0-0"), ptr.To("dev-0-1")),
		}
	}
	w.rules.set(name, rule)
}

func (w *eventWorld) node() {
	i := w.g.Intn(len(w.nodes))
	node := w.nodes[i].DeepCopy()
	node.Labels[pick(w.g, "zone", "rack")] = pick(w.g, "1", "2", "a", "b")
	w.nodes[i] = node
}

func (w *eventWorld) claimName() string { return fmt.Sprint("held-", w.g.Intn(6)) }

// newVersion returns the claim as the next write leaves it.
func (w *eventWorld) newVersion(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	w.version++
	claim = claim.DeepCopy()
	claim.ResourceVersion = strconv.Itoa(w.version)
	return claim
}

// newClaim creates a claim, perhaps in the place of another one.
func (w *eventWorld) newClaim() {
	name := w.claimName()
	claim := w.newVersion(w.g.claim(0))
	claim.Name, claim.UID = name, types.UID(fmt.Sprint(name, "-", w.version))
	w.claims.set(name, claim)
}

func (w *eventWorld) endClaim() {
	name := w.claimName()
	claim := w.claims.server[name]
	switch {
	case claim == nil:
	case w.g.oneIn(2):
		w.claims.set(name, nil)
	case claim.Status.Allocation != nil:
		claim = w.newVersion(claim)
		claim.Status.Allocation = nil
		w.claims.set(name, claim)
		if w.g.oneIn(2) {
			w.observe(claim) // Our own write.
		}
	}
}

// foreign lets another scheduler allocate a claim, possibly with devices that are not free.
func (w *eventWorld) foreign() {
	claim := w.claims.server[w.claimName()]
	devices := devicesIn(slices.Collect(maps.Values(w.slices.told)))
	if claim == nil || claim.Status.Allocation != nil || len(devices) == 0 || w.inFlight[claim.UID] != nil {
		return
	}
	slices.SortFunc(devices, func(x, y device) int {
		return slices.Compare([]string{x.slice.Name, x.Name}, []string{y.slice.Name, y.Name})
	})
	claim = w.newVersion(claim)
	claim.Status.Allocation = new(resourceapi.AllocationResult)
	for i := range 1 + w.g.Intn(2) {
		d := devices[w.g.Intn(len(devices))]
		result := resourceapi.DeviceRequestAllocationResult{Request: "r0", Driver: d.slice.Spec.Driver, Pool: d.slice.Spec.Pool.Name, Device: d.Name}
		if ptr.Deref(d.AllowMultipleAllocations, false) {
			result.ShareID = ptr.To(types.UID(fmt.Sprint(claim.ResourceVersion, "-", i)))
		}
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, result)
	}
	w.claims.set(claim.Name, claim)
}

// schedule plans for a claim and puts the plan in flight.
func (w *eventWorld) schedule() {
	claim := w.seen[w.claimName()]
	if claim == nil || claim.Status.Allocation != nil || w.inFlight[claim.UID] != nil {
		return
	}
	node := w.nodes[w.g.Intn(len(w.nodes))]
	outcome, err := w.solve(node, claim)
	if err != nil || outcome.GaveUp || !outcome.Fits() {
		return
	}
	plan := &outcome.Results[0]
	require.NoError(w.t, w.usage.AddInFlight(ledger.RefTo(claim), "pod", plan), "nothing came between the plan and its reservation")
	w.inFlight[claim.UID] = plan
}

// goOn advances something in flight: it is written, or its answer arrives, or it is given up.
func (w *eventWorld) goOn() {
	for _, uid := range slices.Sorted(maps.Keys(w.inFlight)) {
		if w.g.oneIn(2) {
			continue
		}
		if answer := w.answers[uid]; answer != nil {
			w.observe(answer)
		} else if i := slices.IndexFunc(slices.Collect(maps.Values(w.claims.server)), func(c *resourceapi.ResourceClaim) bool { return c.UID == uid }); i >= 0 && !w.g.oneIn(4) {
			w.write(uid)
			return
		}
		w.usage.RemoveInFlight(uid, "pod")
		delete(w.inFlight, uid)
		delete(w.answers, uid)
		return
	}
}

// write makes the server accept a plan, unless the claim is allocated already.
func (w *eventWorld) write(uid types.UID) {
	for name, claim := range w.claims.server {
		if claim.UID == uid && claim.Status.Allocation == nil {
			claim = w.newVersion(claim)
			claim.Status.Allocation = w.inFlight[uid]
			w.claims.set(name, claim)
			w.answers[uid] = claim
		}
	}
}

// observe tells the ledger the answer to a write.
func (w *eventWorld) observe(claim *resourceapi.ResourceClaim) {
	w.usage.Observe(claim)
	if known := w.seen[claim.Name]; known != nil && known.UID == claim.UID && versionOf(known) < versionOf(claim) {
		w.seen[claim.Name] = claim
	}
}

func versionOf(claim *resourceapi.ResourceClaim) int {
	version, _ := strconv.Atoi(claim.ResourceVersion)
	return version
}

// tell delivers events: some of those that are late, or in a relist everything, in any order.
func (w *eventWorld) tell(relist bool) {
	var events []func()
	due := func(stale bool) bool { return relist || stale && !w.g.oneIn(3) }
	for _, name := range namesOf(&w.slices) {
		if due(w.slices.stale[name]) {
			events = append(events, func() {
				w.store.RefreshSlice(name, func() *resourceapi.ResourceSlice { return w.slices.read(name) })
			})
		}
	}
	for _, name := range namesOf(&w.rules) {
		if due(w.rules.stale[name]) {
			events = append(events, func() {
				w.store.RefreshTaintRule(name, func() *resourceapi.DeviceTaintRule { return w.rules.read(name) })
			})
		}
	}
	for _, name := range namesOf(&w.claims) {
		if due(w.claims.stale[name]) {
			events = append(events, func() { w.tellClaim(name) })
		}
	}
	for i := range events {
		j := i + w.g.Intn(len(events)-i)
		events[i], events[j] = events[j], events[i]
		events[i]()
	}
}

func (w *eventWorld) tellClaim(name string) {
	w.usage.Refresh(b.Namespace+"/"+name, func() *resourceapi.ResourceClaim { return w.claims.read(name) })
	if claim := w.claims.told[name]; claim == nil {
		delete(w.seen, name)
	} else {
		w.seen[name] = claim
	}
}

// namesOf returns the names of all objects of a kind, on the server or told.
func namesOf[T any](o *eventObjects[T]) []string {
	all := maps.Clone(o.stale)
	for name := range o.server {
		all[name] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// solve asks as the plugin does: it repeats questions about slow expressions.
func (w *eventWorld) solve(node *v1.Node, claims ...*resourceapi.ResourceClaim) (outcome *allocator.Outcome, err error) {
	for {
		ctx := selector.WithBudget(w.t.Context(), selector.NewBudget(40*time.Millisecond, 0))
		outcome, err = w.solver.Prepare(claims).Solve(ctx, allocator.NodeView{Node: node, Pools: w.store.OnNode(node), Usage: w.usage})
		if !errors.Is(err, selector.ErrPending) {
			return outcome, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
