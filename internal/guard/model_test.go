package guard

import (
	"context"
	"flag"
	"fmt"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

var histories = flag.Int("guard.histories", 10000, "how many random histories of the guard to look at")

// world is a cluster with two guards, one of them with the Lease, and API servers that ask either of them. Anything
// may happen at any time and take any time: requests are late, watches lag, a guard is paused between its decision
// and its answer, or has lost its Lease without knowing it. Only the steps of one write on its API server are in
// order: ask, get an answer, store.
//
// It steps the Book, the Handover and the Fence that run in the product.
type world struct {
	rng      *rand.Rand
	revision int
	claims   map[string]*stored
	// history are all states that claims had, in the order of the watch.
	history []stored
	writes  []*pending
	guards  []*process
	story   []string
	weights []int // of steps, each as often as it is likely
}

// stored is a claim as the server has it.
type stored struct {
	name    string
	uid     types.UID
	version int
	device  string // "" if it is not allocated
	gone    bool
	// policy is the server's treatment of fences.
	policy fencePolicy
}

// pending is a requested write.
type pending struct {
	on     stored // the claim that it rests on
	device string
	// confirmed is set if a guard has looked the claim up and has found that version.
	confirmed bool
	by        *process // whose decision it has, nil if none
	tenure    Tenure   // when he decided
	passed    bool     // the answer has arrived
}

// process is a guard.
type process struct {
	name   string
	book   *Book
	ledger *ledger.Ledger
	seen   int // how much of the history its watch has delivered
	known  map[string]stored
	// leads is this process's belief, by its clock and its Lease.
	leads       bool
	tenure      Tenure
	handover    *Handover
	takeoverFor Tenure
	listed      map[types.UID]stored
	// underWay are the writes that may still come of those that there were at the list.
	underWay []*pending
	// observed are the approvals that were to be fenced, and expiring is one that is about to be ended.
	observed map[watchedWrite]observation
	expiring func()
}

const (
	modelClaims  = 3
	modelDevices = 2
	modelSteps   = 300
)

func newWorld(seed int64) *world {
	w := &world{rng: rand.New(rand.NewSource(seed)), claims: make(map[string]*stored)}
	devices := make([]*b.DeviceBuilder, modelDevices)
	for i := range devices {
		devices[i] = b.Device(fmt.Sprintf("gpu-%d", i))
	}
	published := inventory.FromSlices([]*resourceapi.ResourceSlice{b.NodeSlice("a", devices...).Obj()}, inventory.Options{})
	pools := func(id inventory.PoolID) *inventory.NodePool {
		if pool := published.Pool(id); pool != nil {
			return pool.Everywhere()
		}
		return nil
	}
	for _, name := range []string{"guard-a", "guard-b"} {
		p := &process{name: name, tenure: time.Unix(0, 0), ledger: ledger.New(), known: make(map[string]stored), observed: make(map[watchedWrite]observation)}
		p.ledger.Pools = pools
		p.book = NewBook(p.ledger)
		w.guards = append(w.guards, p)
	}
	for i := range 2 {
		w.store(stored{name: fmt.Sprintf("claim-%d", i), uid: types.UID(fmt.Sprintf("uid-%d", i)), policy: w.anyPolicy()})
	}
	return w
}

func (w *world) tell(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf(format, args...))
}

func (c *stored) object() *resourceapi.ResourceClaim {
	claim := b.Claim(c.name).Obj()
	if c.device != "" {
		claim = b.Claim(c.name).Allocated("a", c.device)
	}
	claim.UID, claim.ResourceVersion = c.uid, strconv.Itoa(c.version)
	return claim
}

// store changes a claim.
func (w *world) store(c stored) {
	w.revision++
	c.version = w.revision
	if c.gone {
		delete(w.claims, c.name)
	} else {
		w.claims[c.name] = &c
	}
	w.history = append(w.history, c)
	w.tell("stored: %s at %d has %q, gone: %t", c.uid, c.version, c.device, c.gone)
}

// doubled returns a device that two claims have, "" if there is none.
func (w *world) doubled() string {
	holders := make(map[string]int)
	for _, c := range w.claims {
		if c.device != "" {
			if holders[c.device]++; holders[c.device] > 1 {
				return c.device
			}
		}
	}
	return ""
}

// step has one thing happen. How often what happens differs from history to history.
func (w *world) step() {
	steps := []func(){w.change, w.ask, w.review, w.answer, w.save, w.watch, w.lease, w.takeOver, w.sweep, w.expire, w.timeOut}
	if w.weights == nil {
		for i := range steps {
			w.weights = append(w.weights, slices.Repeat([]int{i}, 1<<w.rng.Intn(5))...)
		}
	}
	steps[w.weights[w.rng.Intn(len(w.weights))]]()
}

// change creates, deallocates or deletes a claim: servers ask no guard about that.
func (w *world) change() {
	name := fmt.Sprintf("claim-%d", w.rng.Intn(modelClaims))
	c := w.claims[name]
	switch {
	case c == nil:
		w.store(stored{name: name, uid: types.UID(fmt.Sprintf("%s-%d", name, w.revision)), policy: w.anyPolicy()})
	case c.device != "":
		next := *c
		next.device = ""
		w.store(next)
	case w.rng.Intn(4) == 0:
		next := *c
		next.gone = true
		w.store(next)
	}
}

// ask has a scheduler ask an API server for an allocation, whose cache may be behind.
func (w *world) ask() {
	if len(w.history) == 0 || len(w.writes) > 6 {
		return
	}
	on := w.history[max(0, len(w.history)-1-w.rng.Intn(4))]
	if c := w.claims[fmt.Sprintf("claim-%d", w.rng.Intn(modelClaims))]; c != nil && w.rng.Intn(4) > 0 {
		on = *c
	}
	if on.device == "" && !on.gone {
		w.writes = append(w.writes, &pending{on: on, device: fmt.Sprintf("gpu-%d", w.rng.Intn(1+w.rng.Intn(modelDevices)))})
	}
}

func (w *world) anyWrite(which func(*pending) bool) *pending {
	var those []*pending
	for _, p := range w.writes {
		if which(p) {
			those = append(those, p)
		}
	}
	if len(those) == 0 {
		return nil
	}
	return those[w.rng.Intn(len(those))]
}

func (w *world) drop(p *pending) {
	w.writes = slices.DeleteFunc(w.writes, func(other *pending) bool { return other == p })
}

// review makes a guard decide; no other process sees the decision yet.
func (w *world) review() {
	p := w.anyWrite(func(p *pending) bool { return p.by == nil })
	if p == nil {
		return
	}
	g := w.guards[w.rng.Intn(len(w.guards))]
	after := p.on
	after.device = p.device
	request := &Request{Claim: ledger.RefTo(p.on.object()), Version: strconv.Itoa(p.on.version), After: after.object().Status.Allocation}
	request.Confirmed = p.confirmed
	answer := g.book.Review(g.tenure, request)
	if answer.Kind == AwaitConfirmation { // What was found out may be old when it is made use of.
		c := w.claims[p.on.name]
		p.confirmed = c != nil && c.uid == p.on.uid && c.version == p.on.version
	}
	if answer.Kind == Allowed {
		p.by, p.tenure = g, g.tenure
		w.tell("%s allows %s at %d to have %s", g.name, p.on.uid, p.on.version, p.device)
	} else if w.rng.Intn(8) == 0 {
		w.drop(p)
	}
}

// answer has a guard answer if it leads, as far as it knows.
func (w *world) answer() {
	p := w.anyWrite(func(p *pending) bool { return p.by != nil && !p.passed })
	if p == nil {
		return
	}
	if p.passed = p.by.leads && p.tenure.Equal(p.by.tenure); !p.passed {
		w.drop(p)
	}
}

// save has an API server store what was allowed, if the claim is still what it rests on.
func (w *world) save() {
	p := w.anyWrite(func(p *pending) bool { return p.passed })
	if p == nil {
		return
	}
	w.drop(p)
	if c := w.claims[p.on.name]; c != nil && c.uid == p.on.uid && c.version == p.on.version {
		next := *c
		next.device = p.device
		w.store(next)
	}
}

// watch delivers the next event to a guard.
func (w *world) watch() {
	g := w.guards[w.rng.Intn(len(w.guards))]
	if g.seen == len(w.history) {
		return
	}
	c := w.history[g.seen]
	g.seen++
	g.ledger.Refresh("default/"+c.name, func() *resourceapi.ResourceClaim {
		if c.gone {
			return nil
		}
		return c.object()
	})
	g.book.Seen("default/" + c.name)
}

// lease ends the Lease or gives it to a guard. A guard that loses it learns of that at once or later; in any case its
// clock tells it when the Lease is over.
func (w *world) lease() {
	for _, g := range w.guards {
		if g.leads {
			if w.rng.Intn(8) == 0 {
				g.leads = false
				w.tell("%s loses the Lease", g.name)
			}
			return
		}
	}
	g := w.guards[w.rng.Intn(len(w.guards))]
	g.leads, g.tenure, g.handover = true, time.Unix(g.tenure.Unix()+1, 0), nil
	w.tell("%s gets the Lease", g.name)
}

// takeOver takes one step of a handover. It goes on also when the Lease is lost meanwhile.
func (w *world) takeOver() {
	g := w.guards[w.rng.Intn(len(w.guards))]
	switch {
	case g.handover == nil && g.leads:
		w.list(g)
	case g.handover == nil:
	case len(g.handover.ToFence()) > 0:
		waiting := g.handover.ToFence()
		next := waiting[w.rng.Intn(len(waiting))]
		version, err := w.fencer().Fence(context.Background(), next.ClaimRef, next.Version)
		if err != nil && w.cameOrWent(g.underWay) {
			version, err = w.fencer().version(context.Background(), next)
		}
		if err == nil {
			g.handover.Fenced(next.UID, version)
		}
	case len(g.handover.Missing(g.ledger)) == 0:
		g.book.Decide(g.takeoverFor)
		w.tell("%s decides", g.name)
	default:
		for _, uid := range g.handover.Missing(g.ledger) {
			if c := w.claims[g.listed[uid].name]; c == nil || c.uid != uid {
				g.handover.Gone(uid)
			}
		}
	}
}

func (w *world) list(g *process) {
	var listed []Listed
	g.listed = make(map[types.UID]stored)
	for _, c := range w.claims {
		g.listed[c.uid] = *c
		listed = append(listed, Listed{ledger.RefTo(c.object()), strconv.Itoa(c.version), c.device != ""})
	}
	slices.SortFunc(listed, func(x, y Listed) int { return strings.Compare(x.Name, y.Name) })
	g.handover, g.takeoverFor, g.underWay = NewHandover(listed), g.tenure, slices.Clone(w.writes)
}

// TestModel looks at random histories. In none do two claims get one device, and in most something is
// allocated.
func TestModel(t *testing.T) {
	t.Parallel()
	allocations, takeovers, expired, most := 0, 0, 0, *histories
	if testing.Short() {
		most = min(most, 3000)
	}
	for seed := range int64(most) {
		w := newWorld(seed)
		for range modelSteps {
			w.step()
			require.Empty(t, w.doubled(), "history %d:\n%s", seed, strings.Join(w.story, "\n"))
		}
		for _, line := range w.story {
			switch {
			case strings.Contains(line, "allows"):
				allocations++
			case strings.HasSuffix(line, "decides"):
				takeovers++
			case strings.HasSuffix(line, "has expired"):
				expired++
			}
		}
	}
	require.Greater(t, allocations, most/4, "the guards have to allow something")
	require.Greater(t, takeovers, most/2, "the guards have to decide")
	require.Greater(t, expired, most/100, "what cannot be fenced has to expire")
}
