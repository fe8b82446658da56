package quartermaster

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/hold"
	"github.com/quartermaster-dra/quartermaster/internal/hold/booking"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
	"github.com/quartermaster-dra/quartermaster/internal/nodes"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// booked is a booking in a plan.
type booked struct {
	*booking.Booking
	booking.State
	// pods are those that it is for, unless they have ended or are gated.
	pods []*v1.Pod
	// waiting stands for the copies that no pod uses. It is nil if nothing is to be held, or if refusal says why nothing can be.
	waiting *hold.Waiting
	refusal hold.Refusal
	copies  []*heldTask
	// waits is set if it is not its turn in this plan.
	waits bool
}

const (
	// horizon is the time before the start of a repeated booking from which on devices are held. One that starts once has no such limit:
	// pods without a deadline get none of its devices from its creation on.
	horizon = 24 * time.Hour
	// turnsPerHold limits the bookings in a plan, as a multiple of those that may have holds.
	turnsPerHold = 4
	// mostChecks limits the waiting pods of a namespace in a plan that are compared with the hold of their booking.
	mostChecks = 16
)

// notYet is the reason of a condition for a repeated booking that starts later.
const notYet = "NotYet"

// longestMessage limits the message of a condition, which is that of an event as well.
const longestMessage = 500

// invalid returns the refusal of a booking that cannot be understood.
func invalid(err error) hold.Refusal {
	return hold.Refusal{Reason: "InvalidSpec", Message: short(err.Error())}
}

// short returns a message in one line that is not too long. What is not UTF-8 would be stored in another way.
func short(message string) string {
	message = strings.ReplaceAll(message, "\n", "; ")
	return strings.ToValidUTF8(message[:min(len(message), longestMessage)], "")
}

// lookAtBookings finds the state of all bookings. Of each namespace, only the first ones to start are considered further: the time for the
// others must not grow with what one tenant creates.
func (w *holdWorld) lookAtBookings() {
	limits, of := w.state.holdLimits(), make(map[string][]*booked)
	most := (limits.MaxHolds*limits.PercentOfNamespace + 99) / 100
	for _, b := range w.state.bookings.All() {
		if b.DeletionTimestamp != nil {
			continue
		}
		one := &booked{Booking: b}
		w.bookings = append(w.bookings, one)
		if b.Invalid != nil {
			one.refusal = invalid(b.Invalid)
			continue
		}
		// Whether it is used decides only whether it goes on.
		one.State = b.At(w.now, true)
		switch {
		case one.Ended != "":
		case b.Spec.Schedule != "" && one.Start.Sub(w.now) > horizon:
			one.refusal = hold.Refusal{Reason: notYet, Message: "the devices are held from 24 hours before the start on"}
		default:
			of[b.Namespace] = append(of[b.Namespace], one)
		}
	}
	var all []*booked
	for _, namespace := range slices.Sorted(maps.Keys(of)) {
		some := of[namespace]
		slices.SortStableFunc(some, func(a, b *booked) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Name, b.Name)) })
		some = withinQuota(some, w.state.bookings.Quota(namespace))
		for _, one := range some[min(most, len(some)):] {
			one.refusal = hold.Refusal{Reason: hold.TooMany, Message: "other bookings of the namespace start before it, and as many as may be planned at the same time"}
		}
		all = append(all, some[:min(most, len(some))]...)
	}
	for _, one := range w.inTurn(all, turnsPerHold*limits.MaxHolds) {
		w.findPods(one)
		if one.State = one.At(w.now, len(one.pods) > 0); one.Ended == "" {
			w.considered[one.UID] = one
		}
	}
}

// inTurn returns as many of the bookings as there may be in a plan: those with devices in the last one, and of the others the next ones with
// each plan. Otherwise the time for a plan would grow with the number of namespaces that book what there is not.
func (w *holdWorld) inTurn(all []*booked, most int) []*booked {
	if len(all) <= most {
		return all
	}
	held := make(map[types.UID]bool)
	for _, h := range w.state.holds.Holds() {
		if h.Booking != nil {
			held[h.Booking.UID] = true
		}
	}
	if len(held) == 0 { // After a restart, the statuses say which had devices.
		for _, one := range all {
			held[one.UID] = one.IsPlanned()
		}
	}
	rest := slices.DeleteFunc(slices.Clone(all), func(one *booked) bool { return held[one.UID] })
	all = slices.DeleteFunc(all, func(one *booked) bool { return !held[one.UID] })
	n := min(max(1, most-len(all)), len(rest))
	if n == 0 {
		return all
	}
	from := int(w.state.plans.Add(1)) * n % len(rest)
	rest = append(rest[from:len(rest):len(rest)], rest[:from]...)
	for _, one := range rest[n:] {
		one.waits = true
	}
	return append(all, rest[:n]...)
}

// findPods finds the pods of a booking. Only clusters with bookings have the index.
func (w *holdWorld) findPods(one *booked) {
	pods := w.state.served()[0].handle.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer()
	if pods.GetIndexers()[cache.NamespaceIndex] == nil {
		_ = pods.AddIndexers(cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	found, err := pods.ByIndex(cache.NamespaceIndex, one.Namespace)
	if err != nil {
		return
	}
	for _, obj := range found {
		if pod, ok := obj.(*v1.Pod); ok && !dra.HasEnded(pod) && len(pod.Spec.SchedulingGates) == 0 && one.IsFor(pod, preemption.GroupOf(pod)) {
			one.pods = append(one.pods, pod)
		}
	}
	slices.SortFunc(one.pods, podutil.Older)
}

// isBookingTried reports whether a pod that a booking is for is just being tried: then the hold stays as it is, because the outcome is
// not known.
func (w *holdWorld) isBookingTried(h *hold.Hold) bool {
	one := w.considered[h.Booking.UID]
	if one == nil || !one.Start.Equal(h.Booking.Start) ||
		!slices.ContainsFunc(one.pods, func(pod *v1.Pod) bool { return pod.Spec.NodeName == "" && w.isTried(pod.UID) }) {
		return false
	}
	one.waiting = h.Waiting
	return true
}

// addBookings adds the copies of bookings that no pod uses yet.
func (w *holdWorld) addBookings() {
	for _, one := range w.considered {
		if one.waiting != nil {
			continue
		}
		copies, inUse := w.inUse(one)
		w.book(one, int(one.Spec.Count)-copies, inUse)
	}
}

// inUse returns how many copies of a booking its pods have, and the devices of these. On each node, these are as many whole ones as the devices
// there of its classes suffice for.
func (w *holdWorld) inUse(one *booked) (copies int, uses []ledger.Use) {
	classes, each := one.Needs()
	seen, devices, on := make(map[types.UID]bool), make(map[types.UID]int), make(map[string][]ledger.Use)
	for _, pod := range one.pods {
		node := cmp.Or(pod.Spec.NodeName, string(pod.UID))
		for _, use := range w.state.served()[0].holders.UsesOf(pod) {
			claim := informer.Object[resourceapi.ResourceClaim](w.state.Claims, use.Claim.Namespace+"/"+use.Claim.Name)
			if seen[use.Claim.UID] || claim == nil {
				continue
			}
			seen[use.Claim.UID], w.claims[use.Claim.UID] = true, claim
			for result := range ledger.Used(use.Allocation) {
				if classes[dra.ClassOf(claim, result.Request)] {
					devices[use.Claim.UID]++
				}
			}
			if devices[use.Claim.UID] > 0 {
				on[node] = append(on[node], use)
			}
		}
	}
	for _, node := range slices.Sorted(maps.Keys(on)) {
		n, lacks := 0, int(one.Spec.Count)-copies
		var some []ledger.Use
		for _, use := range on[node] {
			if n < lacks*each {
				n, some = n+devices[use.Claim.UID], append(some, use)
			}
		}
		if whole := min(n/each, lacks); whole > 0 {
			copies, uses = copies+whole, append(uses, some...)
		}
	}
	return copies, uses
}

// book adds a booking to what waits, with the copies that it lacks and the devices in use.
func (w *holdWorld) book(one *booked, copies int, inUse []ledger.Use) {
	priority, err := w.state.bookings.Priority(one.Booking)
	pl := w.state.served()[0]
	task := pl.solver.Prepare([]*resourceapi.ResourceClaim{one.Copy(0)})
	if err = cmp.Or(err, task.Err()); err != nil {
		one.refusal = invalid(err)
		return
	}
	waiting := &hold.Waiting{
		Namespace: one.Namespace, Name: one.Namespace + "/" + one.Name, Priority: priority, Since: one.CreationTimestamp.Time, Due: one.Start,
		Domain: w.domainOf(one), InUse: inUse,
		Booking: &hold.Booking{UID: one.UID, Generation: one.Generation, Start: one.Start, End: one.End, For: one.IsFor},
	}
	ctx := selector.WithBudget(w.ctx, selector.NewBudget(pl.attemptBudget, 0))
	ctx = allocator.WithSteps(ctx, allocator.NewSteps(int(*pl.args.AttemptStepBudget), len(w.state.Free.Nodes())))
	kind, admits := string(task.AppendKey(nil)), mayBeBooked
	// Pods without devices, such as a launcher, may be on other nodes.
	if i := slices.IndexFunc(one.pods, func(pod *v1.Pod) bool { return pod.Spec.NodeName == "" && pl.usesDevices(pod) }); i >= 0 {
		admits = nodes.Admission(klog.FromContext(w.ctx), one.pods[i])
	}
	for i := range copies {
		claim := one.Copy(i)
		w.claims[claim.UID] = claim
		held := &heldTask{ctx: ctx, world: w, task: task, open: []*resourceapi.ResourceClaim{claim}, admits: admits, inventory: w.state.Inventory}
		one.copies = append(one.copies, held)
		waiting.Pods = append(waiting.Pods, &hold.Pod{UID: claim.UID, Kind: kind, Requirements: held})
	}
	one.waiting = waiting
	w.waiting, w.first[waiting] = append(w.waiting, waiting), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: one.Namespace, UID: one.UID}}
}

// usesDevices reports whether a pod has claims, or resources for which it gets one.
func (pl *Quartermaster) usesDevices(pod *v1.Pod) bool {
	claims, backing, _, err := pl.needs.Of(pod).Ours()
	return err != nil || backing != nil || len(claims) > 0
}

// mayBeBooked reports whether a node can take pods, for a booking of whose pods none waits. Which other taints the pods tolerate is not known; special nodes usually have one.
func mayBeBooked(node *v1.Node) bool {
	return !node.Spec.Unschedulable && !slices.ContainsFunc(node.Spec.Taints, func(taint v1.Taint) bool {
		return strings.HasPrefix(taint.Key, "node.kubernetes.io/") && taint.Effect != v1.TaintEffectPreferNoSchedule
	})
}

// domainOf returns the domains of a booking: only that of its running pods, if there is one.
func (w *holdWorld) domainOf(one *booked) func(*v1.Node) (string, bool) {
	label := one.Spec.TopologyKey
	if label == "" {
		return nil
	}
	only := ""
	for _, pod := range one.pods {
		if node, err := w.state.served()[0].nodes.Get(pod.Spec.NodeName); err == nil {
			only = cmp.Or(only, node.Labels[label])
		}
	}
	return func(node *v1.Node) (string, bool) {
		value, has := node.Labels[label]
		return value, has && (only == "" || value == only)
	}
}

// updates returns the statuses that the bookings ought to have after a plan.
func (w *holdWorld) updates(plan []*hold.Hold) (all []booking.Update) {
	held := make(map[*hold.Waiting]*hold.Hold)
	for _, h := range plan {
		held[h.Waiting] = h
	}
	for _, one := range w.bookings {
		if one.waits || one.isSettled() {
			continue
		}
		turn := 0
		if w.considered[one.UID] == nil {
			turn = 1
		}
		if h := held[one.waiting]; h == nil || len(h.Uses) == 0 {
			w.findError(one)
		}
		next := one.Next(one.State, len(one.pods) > 0, one.outcome(held[one.waiting]), w.now)
		all = append(all, booking.Update{Booking: one.Booking, State: one.State, Next: next, Turn: turn})
	}
	return all
}

// findError looks for an error in the requests of a booking that has no devices, as if all were free: while none are, no expression is evaluated.
func (w *holdWorld) findError(one *booked) {
	if one.waiting == nil || one.waiting.Refusal.Reason != hold.CannotFit || len(one.copies) == 0 {
		return
	}
	free := ledger.Without(w.state.Ledger, func(types.UID) bool { return true })
	for _, node := range w.Nodes {
		if task := one.copies[0]; task.failed != nil || task.Solve(node.Node, free) != nil {
			return
		}
	}
}

// isSettled reports whether the status says already why nothing is held: there may be many such bookings, which may start every minute.
func (one *booked) isSettled() bool {
	switch why := one.refusal; {
	case why.Reason == "":
		return one.Settled(one.State)
	case why.Reason == hold.TooMany, why.Reason == exceedsQuota && one.Spec.Schedule != "":
		return one.Says(why.Reason)
	default:
		return one.Shows(one.State, why.Reason, why.Message)
	}
}

// outcome returns what a plan has for a booking.
func (one *booked) outcome(h *hold.Hold) booking.Outcome {
	if one.waiting != nil {
		if one.refusal = one.waiting.Refusal; one.refusal.Reason == "" {
			return outcomeOf(h)
		}
	}
	o := booking.Outcome{Planned: metav1.ConditionFalse, Reason: one.refusal.Reason, Message: one.refusal.Message}
	if o.Reason == notYet {
		o.Planned = metav1.ConditionUnknown
	}
	for _, task := range one.copies {
		switch {
		case errors.Is(task.failed, selector.ErrPending):
			o.Planned, o.Reason, o.Message = metav1.ConditionUnknown, "Pending", task.failed.Error()
		case task.failed != nil:
			o.Message = task.failed.Error()
		}
	}
	o.Message = short(o.Message)
	return o
}

// outcomeOf returns the outcome for a booking that lacks nothing. Without a hold, its pods have the devices before the start.
func outcomeOf(h *hold.Hold) booking.Outcome {
	if h == nil || len(h.Pods) == 0 {
		return booking.Outcome{Planned: metav1.ConditionTrue, Reason: "InUse", Message: "pods that it is for have the devices"}
	}
	o := booking.Outcome{Planned: metav1.ConditionTrue, Reason: "Held", Message: "the devices are free or are known to be free at the start", Nodes: h.NodeNames()}
	if h.Late > 0 {
		o.Reason, o.Message = "HeldLate", "some devices are in use by pods that are not known to end before the start; they are held once these have ended"
	}
	for _, use := range h.All() {
		for result := range ledger.Used(use.Allocation) {
			o.Devices = append(o.Devices, result.Driver+"/"+result.Pool+"/"+result.Device)
		}
	}
	slices.Sort(o.Devices)
	return o
}
