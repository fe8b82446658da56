package quartermaster

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/internal/hold"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
	kubepreemption "github.com/quartermaster-dra/quartermaster/internal/kube/preemption"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// A holdWorld collects what a plan of holds depends on. It is not part of a scheduling cycle.
type holdWorld struct {
	hold.World
	waiting []*hold.Waiting

	ctx   context.Context
	state *shared
	now   time.Time
	// claims are the claims of the waiting pods, and holdings those with devices.
	claims   map[types.UID]*resourceapi.ResourceClaim
	holdings map[types.UID]*hold.Holding
	// groups are those that were looked at.
	groups map[string]bool
	// devices counts the devices of classes.
	devices map[string]int
	// pools are the pools that nodes reach, in the order of the nodes, and usage has the devices in use there. The ledger goes on while a plan is made:
	// a claim that comes or goes meanwhile would keep a node from the plan.
	pools []inventory.PoolID
	usage ledger.Fixed
	// first is a pod of each holder.
	first map[*hold.Waiting]*v1.Pod
	// open are the pods for which devices may be held, planned are those of them about which all is known, and tried remembers which are just
	// being tried.
	open, planned, tried map[types.UID]bool
	// bookings are all, and considered those that may get devices.
	bookings   []*booked
	considered map[types.UID]*booked
	// pending is one of the expressions that are still being evaluated and select devices, nil if there are none.
	pending *selector.Pending
	// checks counts, by namespace, the pods that were compared with the hold of their booking.
	checks map[string]int
}

// isTried reports whether a pod is just being tried, which does not change during a plan.
func (w *holdWorld) isTried(pod types.UID) bool {
	tried, known := w.tried[pod]
	if !known {
		tried = w.state.isTried(pod)
		w.tried[pod] = tried
	}
	return tried
}

// isTried reports whether a pod has reserved what it needs in an attempt that has not ended.
func (s *shared) isTried(pod types.UID) bool {
	return slices.ContainsFunc(s.served(), func(pl *Quartermaster) bool { return pl.commits.IsTried(pod) || pl.nominated.IsInFlight(pod) })
}

// triedHolders returns the present holds of pods and groups that are just being tried. A gang of scheduler-plugins reserves the claims
// of all its pods first.
func (w *holdWorld) triedHolders() (tried []hold.Tried) {
	for _, h := range w.state.holds.Holds() {
		if h.Booking != nil {
			if w.isBookingTried(h) {
				tried = append(tried, hold.Tried{Hold: h})
			}
			continue
		}
		if one := w.asTried(h); len(one.Reserved) > 0 {
			tried = append(tried, one)
		}
	}
	return tried
}

// asTried returns a hold with those of its pods that have reserved what they need.
func (w *holdWorld) asTried(h *hold.Hold) hold.Tried {
	inFlight := func(use ledger.Use) bool { return len(w.state.Ledger.UseOf(use.Claim.UID).InFlight) > 0 }
	one := hold.Tried{Hold: h, Reserved: make(map[types.UID]bool)}
	for pod, uses := range h.Uses {
		if w.isTried(pod) || slices.ContainsFunc(uses, inFlight) {
			one.Reserved[pod] = true
		}
	}
	return one
}

// keepUnplanned keeps the holds of pods that wait and that cannot be planned just now, as if they were being tried: an attempt has begun
// since, or an informer is late. Others would get the devices for long if they were not held for a moment.
func (w *holdWorld) keepUnplanned() {
	for _, tried := range w.Tried {
		for pod := range tried.Uses {
			w.planned[pod] = true
		}
	}
	for _, h := range w.state.holds.Holds() {
		if h.Booking != nil {
			continue
		}
		out := false
		for pod := range h.Uses {
			out = out || w.planned[pod] || !w.open[pod]
		}
		if !out && w.state.holds.Unplanned(h, w.now) {
			w.Tried = append(w.Tried, w.asTried(h))
		}
	}
}

// holdWorldOf returns what a plan depends on.
func (s *shared) holdWorldOf(ctx context.Context, now time.Time) *holdWorld {
	w := &holdWorld{
		ctx: ctx, state: s, now: now, claims: make(map[types.UID]*resourceapi.ResourceClaim), holdings: make(map[types.UID]*hold.Holding),
		groups: make(map[string]bool), devices: make(map[string]int),
		considered: make(map[types.UID]*booked), usage: make(ledger.Fixed), checks: make(map[string]int), first: make(map[*hold.Waiting]*v1.Pod), open: make(map[types.UID]bool), planned: make(map[types.UID]bool), tried: make(map[types.UID]bool),
	}
	pods := s.holds.Waiting(now)
	for _, pod := range pods {
		w.open[pod.UID] = true
	}
	w.lookAtBookings()
	w.World = hold.World{Now: now, Cluster: w, Limits: s.holdLimits()}
	w.Tried = w.triedHolders()
	stays := make(map[types.UID]bool)
	for _, h := range w.Tried {
		if h.Group {
			w.groups[h.Name] = true
		}
		for pod := range h.Uses {
			stays[pod] = true
		}
	}
	for _, pod := range pods {
		if pl := s.profileFor(pod); pl != nil && !stays[pod.UID] {
			w.add(pl, pod)
		}
	}
	w.keepUnplanned()
	w.addBookings()
	if len(w.waiting) > 0 {
		w.addNodes()
	}
	return w
}

// profileFor returns the profile whose arguments count for a pod: its own, or the first one for pods of other schedulers that
// take part in the protocol; nil for other pods.
func (s *shared) profileFor(pod *v1.Pod) *Quartermaster {
	all := s.served()
	for _, pl := range all {
		if pl.handle.ProfileName() == pod.Spec.SchedulerName {
			return pl
		}
	}
	if s.competitors.TakesPart(pod.Spec.SchedulerName) {
		return all[0]
	}
	return nil
}

// add adds a pod or its group to those that have waited for long enough.
func (w *holdWorld) add(pl *Quartermaster, pod *v1.Pod) {
	after := pl.args.After(pod)
	since, waits := hold.WaitsSince(pod)
	if after == 0 || !waits || len(pod.Spec.SchedulingGates) > 0 {
		return
	}
	one := &hold.Waiting{Namespace: pod.Namespace, Name: pod.Namespace + "/" + pod.Name, Priority: w.priority(pod), Since: since, Evicts: podutil.Preempts(pod)}
	members := []*v1.Pod{pod}
	if key := preemption.GroupOf(pod); key != "" {
		if w.groups[key] {
			return
		}
		w.groups[key] = true
		if members = w.group(pl, one, pod); members == nil {
			return
		}
		one.Name, one.Group = key, true
	}
	one.Due = one.Since.Add(after)
	busy := func(pod *v1.Pod) bool { return !w.open[pod.UID] || w.isTried(pod.UID) }
	if w.now.Before(one.Due) || slices.ContainsFunc(members, busy) {
		return
	}
	shared := make(map[types.UID]bool)
	var needing []*v1.Pod
	for _, member := range members {
		found, ok := w.pod(pl, member, shared)
		if !ok {
			return
		}
		if found != nil {
			one.Pods, needing = append(one.Pods, found), append(needing, member)
		}
	}
	for _, member := range one.Pods {
		w.planned[member.UID] = true
	}
	if len(one.Pods) > 0 && !w.haveBooking(needing, one.Pods) {
		one.For = w.bookingsFor(pod)
		w.waiting, w.first[one] = append(w.waiting, one), pod
	}
}

// group returns the pods that a group lacks, nil if nothing can be held for it: too few of them wait, or its nodes are limited by
// more than a label.
func (w *holdWorld) group(pl *Quartermaster, one *hold.Waiting, pod *v1.Pod) []*v1.Pod {
	members, lacks, wish, err := w.lacking(pl, pod)
	if err != nil || lacks <= 0 || len(members) < lacks || wish.Required && wish.Key.Label == "" {
		return nil
	}
	if label := wish.Key.Label; wish.Required {
		one.Domain = func(node *v1.Node) (string, bool) {
			value, has := node.Labels[label]
			return value, has
		}
	}
	members = members[:lacks]
	one.Since, one.Priority, one.Evicts = time.Time{}, math.MaxInt32, true // The pod that was met first may be none of them.
	for _, member := range members {
		since, waits := hold.WaitsSince(member)
		if !waits {
			return nil
		}
		if since.After(one.Since) {
			one.Since = since
		}
		one.Priority, one.Evicts = min(one.Priority, w.priority(member)), one.Evicts && podutil.Preempts(member)
	}
	return members
}

// lacking returns the pods of a pod's group that can be scheduled, oldest first, how many the group lacks, and its domain.
func (w *holdWorld) lacking(pl *Quartermaster, pod *v1.Pod) (members []*v1.Pod, lacks int, wish domain.Wish, err error) {
	name := dra.PodGroupName(pod)
	if name == "" {
		group, members, lacks, err := w.state.gangs.Lacking(pod)
		if err != nil {
			return nil, 0, wish, err
		}
		return members, lacks, group.Wish, nil
	}
	group, err := pl.handle.PodGroupManager().PodGroups().Get(pod.Namespace, name)
	if err != nil {
		return nil, 0, wish, err
	}
	state, err := pl.handle.PodGroupManager().PodGroupStates().Get(pod.Namespace, name)
	if err != nil || group.Spec.SchedulingConstraints != nil || group.Spec.SchedulingPolicy.Gang == nil {
		return nil, 0, wish, err
	}
	members = slices.SortedFunc(maps.Values(state.UnscheduledPods()), podutil.Older)
	lacks = int(group.Spec.SchedulingPolicy.Gang.MinCount) - state.ScheduledPodsCount()
	wish, err = domain.Of(group.Annotations)
	return members, lacks, wish, err
}

func (w *holdWorld) priority(pod *v1.Pod) int32 { return w.state.priority(pod) }

// priority returns the priority of a pod, which is that of its PodGroup if the API has one for it. It may be called at any time.
func (s *shared) priority(pod *v1.Pod) int32 {
	groups := s.served()[0].handle.PodGroupManager() // nil without the feature.
	if dra.PodGroupName(pod) == "" || groups == nil {
		return corev1helpers.PodPriority(pod)
	}
	return kubepreemption.PodPriority(pod, groups.PodGroups())
}

// addNodes adds the nodes with devices, in the order of their names.
func (w *holdWorld) addNodes() {
	all, err := w.state.served()[0].nodes.List(labels.Everything())
	if err != nil {
		return
	}
	claims := make(map[*ledger.PoolUsage][]types.UID)
	for _, node := range all {
		room, known := w.state.Free.Settled(node.Name)
		pools := w.state.Inventory.OnNode(node)
		if len(pools) == 0 || !known && len(w.considered) == 0 {
			continue
		}
		if !known { // Bookings do not need to know it, and no pod fits.
			room.Pods = -math.MaxInt32
		}
		found := hold.Node{Node: node, Room: room, Pools: pools}
		for _, pool := range pools {
			usage := w.usage[pool.ID]
			if usage == nil {
				usage = ledger.Of(w.state.Ledger, pool)
				w.usage[pool.ID] = usage
			}
			if _, seen := claims[usage]; !seen {
				claims[usage] = usage.Claims()
				for _, claim := range claims[usage] {
					w.Holding(claim) // As of the same moment.
				}
			}
			found.Claims = append(found.Claims, claims[usage])
		}
		w.Nodes = append(w.Nodes, found)
	}
	slices.SortFunc(w.Nodes, func(a, b hold.Node) int { return cmp.Compare(a.Name, b.Name) })
	seen := make(map[inventory.PoolID]bool)
	for i := range w.Nodes {
		for _, pool := range w.Nodes[i].Pools {
			if !seen[pool.ID] {
				seen[pool.ID] = true
				w.pools = append(w.pools, pool.ID)
			}
		}
	}
}

// Usage implements hold.Cluster: with devices that are kept for nominated pods.
func (w *holdWorld) Usage(one *hold.Waiting) ledger.View {
	own := sets.New[types.UID]()
	for _, pod := range one.Pods {
		own.Insert(pod.Open...)
		own.Insert(pod.Allocated...)
	}
	nominated := w.state.served()[0].nominated
	return ledger.WhatIf(w.usage, nil, nominated.PlannedAgainst(w.first[one], one.Priority, own))
}

// ClassOf implements hold.Cluster.
func (w *holdWorld) ClassOf(claim ledger.ClaimRef, request string) string {
	if known := w.claims[claim.UID]; known != nil {
		return dra.ClassOf(known, request)
	}
	return ""
}

// Devices implements hold.Cluster.
func (w *holdWorld) Devices(class string) int {
	if known, found := w.devices[class]; found {
		return known
	}
	one := &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
		Name: "one", Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1, AdminAccess: ptr.To(false),
		},
	}}}}}
	pl, n := w.state.served()[0], 0
	task := pl.solver.Prepare([]*resourceapi.ResourceClaim{one})
	ctx := selector.WithBudget(w.ctx, selector.NewBudget(pl.attemptBudget, 0))
	for _, id := range w.pools {
		whole := w.state.Pool(id)
		if whole == nil {
			continue
		}
		for i := range whole.Devices {
			if task.Interested(ctx, whole, whole.Devices[i].Name) {
				n++
			}
		}
	}
	w.devices[class] = n
	return n
}
