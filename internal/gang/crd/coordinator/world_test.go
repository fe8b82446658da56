package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// permitTime limits how long pods wait for each other in the tests.
const permitTime = time.Minute

// errHere is the error of the hooks.
var errHere = errors.New("it was to fail here")

// world simulates a kube-scheduler that tries one pod at a time, binds in goroutines, and has one device for each pod. Its
// time is that of a bubble of testing/synctest.
type world struct {
	// ready returns why a pod cannot be tried.
	ready func(*v1.Pod) error
	*testing.T
	*Coordinator
	store cache.Indexer
	queue *queue
	free  int
	// The hooks may make an attempt fail at some point, or delay it. They are called without locks.
	atPreFilter, atFilter, atPreBind, atBind func(pod *v1.Pod) error
	// planning is called at the beginning of each plan, without locks.
	planning func()
	// lag is the time after which the informer shows that a pod is bound.
	lag time.Duration

	mutex   sync.Mutex
	groups  map[string]*v1alpha1.PodGroup
	waiting map[types.UID]*waitingPod
	tried   map[string]int
	plans   int
	// givenUp are the names of the claims that GivenUp was told of.
	givenUp []string
}

// inWorld runs a test in a world with so many devices. When it returns, nothing may be kept for any gang.
func inWorld(t *testing.T, devices int, test func(w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, devices)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go w.run(ctx)
		test(w)
		time.Sleep(5 * time.Minute) // All timers have gone off.
		synctest.Wait()
		w.requireNothingLeft()
		stop()
		synctest.Wait()
	})
}

func newWorld(t *testing.T, devices int) *world {
	pods := cache.NewSharedIndexInformer(&cache.ListWatch{}, &v1.Pod{}, 0, cache.Indexers{})
	c, err := New(pods, Cluster{})
	require.NoError(t, err)
	nothing := func(*v1.Pod) error { return nil }
	w := &world{
		T: t, Coordinator: c, store: pods.GetIndexer(), free: devices, atPreFilter: nothing, atFilter: nothing, atPreBind: nothing, atBind: nothing,
		planning: func() {}, groups: make(map[string]*v1alpha1.PodGroup), waiting: make(map[types.UID]*waitingPod), tried: make(map[string]int),
	}
	w.queue = newQueue()
	c.Ledger = ledger.New()
	w.ready = nothing
	c.Groups, c.Claims, c.Waker = w, w, w
	c.Serve("one", w, Times{Permit: permitTime})
	return w
}

func (w *world) Freed(ledger.Freed) { w.WakeForDevices(nil) }

func (w *world) GivenUp(claims []ledger.ClaimRef) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, claim := range claims {
		w.givenUp = append(w.givenUp, claim.Name)
	}
}

func (w *world) Check(pod *v1.Pod) error { return w.ready(pod) }

func (w *world) Get(namespace, name string) (*v1alpha1.PodGroup, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if group := w.groups[name]; group != nil {
		return group, nil
	}
	return nil, fmt.Errorf("PodGroup %s/%s: there is none of that name", namespace, name)
}

// requireNothingLeft: no devices, nominations or state are kept for a gang that is not waiting.
func (w *world) requireNothingLeft() {
	w.Helper()
	require.Empty(w, w.queue.nominations())
	w.Coordinator.mutex.Lock()
	defer w.Coordinator.mutex.Unlock()
	require.Empty(w, w.held)
	require.Empty(w, w.underway)
	require.Zero(w, w.Ledger.InFlightCount())
	for gang, waits := range w.gangs {
		require.NotEmpty(w, waits.reason, gang)
		require.NotEmpty(w, w.unbound(), "gang %s is remembered and has no pods", gang)
	}
}

// unbound returns the pods without a node.
func (w *world) unbound() (names []string) {
	for _, obj := range w.store.List() {
		if pod := obj.(*v1.Pod); pod.Spec.NodeName == "" {
			names = append(names, pod.Name)
		}
	}
	return names
}

// group creates a PodGroup, or changes it.
func (w *world) group(name string, minMember int32, edits ...func(*v1alpha1.PodGroup)) {
	group := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: v1alpha1.PodGroupSpec{MinMember: minMember}}
	for _, edit := range edits {
		edit(group)
	}
	w.mutex.Lock()
	before := w.groups[name]
	w.groups[name] = group
	w.mutex.Unlock()
	w.GroupChanged(before, group)
}

func (w *world) deleteGroup(name string) {
	w.mutex.Lock()
	before := w.groups[name]
	delete(w.groups, name)
	w.mutex.Unlock()
	w.GroupChanged(before, nil)
}

// pods creates pods of a group, numbered from some number on.
func (w *world) pods(group string, from, count int, edits ...func(*v1.Pod)) {
	for i := range count {
		name := fmt.Sprintf("%s-%d", group, from+i)
		pod := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{v1alpha1.PodGroupLabel: group}},
			Spec:       v1.PodSpec{SchedulerName: "one"},
		}
		for _, edit := range edits {
			edit(pod)
		}
		require.NoError(w, w.store.Add(pod))
		w.PodChanged(informer.Event[v1.Pod]{After: pod})
		if len(pod.Spec.SchedulingGates) == 0 {
			w.queue.add(pod)
		}
	}
}

// pod returns a pod as the informer has it, nil if it is gone.
func (w *world) pod(name string) *v1.Pod {
	obj, exists, err := w.store.GetByKey("ns/" + name)
	require.NoError(w, err)
	if !exists {
		return nil
	}
	return obj.(*v1.Pod)
}

// update changes a pod.
func (w *world) update(name string, edit func(*v1.Pod)) {
	before := w.pod(name)
	after := before.DeepCopy()
	edit(after)
	require.NoError(w, w.store.Update(after))
	w.PodChanged(informer.Event[v1.Pod]{Before: before, After: after})
}

// delete deletes a pod, as kube-scheduler notices it: what waits in Permit is rejected.
func (w *world) delete(name string) {
	pod := w.pod(name)
	require.NoError(w, w.store.Delete(pod))
	w.queue.remove(pod)
	if waits := w.GetWaitingPod(pod.UID); waits != nil {
		waits.Reject("", "removed")
	}
	if pod.Spec.NodeName != "" {
		w.mutex.Lock()
		w.free++
		w.mutex.Unlock()
	}
	w.PodChanged(informer.Event[v1.Pod]{Before: pod})
}

// bound returns how many pods of a group have a node.
func (w *world) bound(group string) (n int) {
	for _, pod := range w.podsOf("ns/" + group) {
		if pod.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// planned returns the number of plans.
func (w *world) planned() int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.plans
}

// has sets the number of devices that no bound pod has.
func (w *world) has(devices int) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.free = devices
}

// reason returns why a gang waits, "" if no reason is known.
func (w *world) reason(gang string) string {
	w.Coordinator.mutex.Lock()
	defer w.Coordinator.mutex.Unlock()
	if waits := w.gangs["ns/"+gang]; waits != nil {
		return waits.reason
	}
	return ""
}

func (w *world) attempts(name string) int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.tried[name]
}

// plan is a PlanFunc: each pod gets a device while there are any, and at least need pods must get one.
func (w *world) plan(_ context.Context, group *Group, members *Members, need int) (*Plan, error) {
	w.planning()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.plans++
	room := w.free - w.Ledger.InFlightCount()
	if room < need {
		return &Plan{Reason: fmt.Sprintf("%d of %d pods fit", room, need)}, nil
	}
	plan := &Plan{}
	for _, pod := range members.Waiting[:min(len(members.Waiting), room)] {
		claim, allocation := w.claimOf(pod)
		assignment := &planning.Assignment{Gang: group.Name, Pod: pod, Node: "node", Claims: []*resourceapi.ResourceClaim{claim}, Allocations: map[types.UID]*resourceapi.AllocationResult{claim.UID: allocation}}
		if first := pod.Annotations["after"]; first != "" {
			assignment.After = []types.UID{types.UID(first)}
		}
		plan.Assignments = append(plan.Assignments, assignment)
	}
	return plan, nil
}

// claimOf returns a pod's claim and its planned allocation: there is a device for each pod, but free limits how many may be
// in use.
func (w *world) claimOf(pod *v1.Pod) (*resourceapi.ResourceClaim, *resourceapi.AllocationResult) {
	return builder.Claim(pod.Name).Obj(), builder.Claim(pod.Name).Allocated("pool", "device-"+pod.Name).Status.Allocation
}

// run tries pods one after the other.
func (w *world) run(ctx context.Context) {
	for {
		pod := w.queue.pop(ctx)
		if pod == nil {
			return
		}
		if now := w.pod(pod.Name); now != nil && now.UID == pod.UID && now.Spec.NodeName == "" {
			w.try(ctx, now)
		}
	}
}

// try is one attempt to schedule a pod, up to Permit.
func (w *world) try(ctx context.Context, pod *v1.Pod) {
	w.mutex.Lock()
	w.tried[pod.Name]++
	w.mutex.Unlock()
	cs := framework.NewCycleState()
	if w.atPreFilter(pod) != nil {
		w.queue.backOff(pod)
		return
	}
	assignment, err := w.Begin(ctx, cs, pod, nil, w.plan)
	if err == nil {
		err = w.atFilter(pod)
	}
	if err == nil && assignment == nil && !w.hasRoom() {
		err = errHere
	}
	if err != nil {
		w.Unfit(cs, pod)
		w.queue.reject(pod)
		return
	}
	claim, allocation := w.claimOf(pod)
	require.NoError(w, w.Ledger.AddInFlight(ledger.RefTo(claim), pod.UID, allocation))
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = "node"
	w.queue.DeleteNominatedPodIfExists(pod)
	status, timeout := w.Permit(cs, assumed, pluginName)
	switch {
	case status.IsWait():
		waits := w.wait(assumed, timeout)
		go func() { w.afterPermit(ctx, cs, assumed, waits) }()
	case !status.IsSuccess():
		w.unreserve(cs, assumed, claim)
		w.queue.reject(pod)
	default:
		go w.bind(ctx, cs, assumed)
	}
}

func (w *world) hasRoom() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.free > w.Ledger.InFlightCount()
}

func (w *world) unreserve(cs fwk.CycleState, pod *v1.Pod, claim *resourceapi.ResourceClaim) {
	w.Ledger.RemoveInFlight(claim.UID, pod.UID)
	w.StirAll()
	w.Failed(cs)
}

func (w *world) afterPermit(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, waits *waitingPod) {
	allowed := <-waits.verdict
	w.mutex.Lock()
	delete(w.waiting, pod.UID)
	w.mutex.Unlock()
	if allowed {
		w.bind(ctx, cs, pod)
		return
	}
	claim, _ := w.claimOf(pod)
	w.unreserve(cs, pod, claim)
	w.queue.reject(pod)
}

// bind simulates PreBind and the later steps.
func (w *world) bind(ctx context.Context, cs fwk.CycleState, pod *v1.Pod) {
	claim, _ := w.claimOf(pod)
	err := w.atPreBind(pod)
	if err == nil {
		err = w.Committed(ctx, cs)
	}
	if err == nil {
		err = w.atBind(pod)
	}
	if err != nil {
		w.unreserve(cs, pod, claim)
		w.queue.backOff(pod)
		return
	}
	w.Ledger.RemoveInFlight(claim.UID, pod.UID)
	w.mutex.Lock()
	w.free--
	w.mutex.Unlock()
	w.queue.remove(pod)
	show := func() {
		if now := w.pod(pod.Name); now != nil && now.UID == pod.UID {
			w.update(pod.Name, func(p *v1.Pod) { p.Spec.NodeName = "node" })
		}
	}
	if w.lag == 0 {
		show()
	} else {
		time.AfterFunc(w.lag, show)
	}
	w.Bound(cs)
}
