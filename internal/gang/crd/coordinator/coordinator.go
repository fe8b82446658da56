package coordinator

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Handle is the part of kube-scheduler's handle that a Coordinator uses.
type Handle interface {
	fwk.PodNominator
	fwk.PodActivator
	GetWaitingPod(uid types.UID) fwk.WaitingPod
}

// Cluster lets a Coordinator look things up in the cluster.
type Cluster struct {
	Groups Groups
	Claims Claims
	Ledger *ledger.Ledger
	Waker  Waker
	// Backing says which resources devices back; nil means that devices back no resource.
	Backing Backing
}

// A Waker wakes the pods that wait for devices or claims that are no longer in flight for a gang.
type Waker interface {
	ledger.Receiver
	// GivenUp wakes the pods that wait for some claims, except for those that were allocated.
	GivenUp([]ledger.ClaimRef)
}

// Groups has the PodGroups.
type Groups interface {
	// Get returns the PodGroup with this namespace and name. Its error tells the user what to do.
	Get(namespace, name string) (*v1alpha1.PodGroup, error)
}

// Claims has the claims of pods.
type Claims interface {
	// Check returns why a pod cannot be tried at all yet, nil if it can.
	Check(*v1.Pod) error
}

// Backing says which resources devices back (KEP-5004).
type Backing interface {
	// Backed reports whether devices may back a resource; the plan then determines whether there is enough of it.
	Backed(v1.ResourceName) bool
}

// A Coordinator schedules the gangs of all profiles of a scheduler. It is safe for concurrent use.
type Coordinator struct {
	Cluster

	pods     cache.Indexer
	progress Progress
	mutex    sync.Mutex
	// gangs holds the gangs that wait, by "namespace/name".
	gangs map[string]*waiting
	// handles holds the handles of the profiles, by schedulerName. times holds the longest of the profiles' times.
	handles map[string]Handle
	times   Times
	// podHints holds the events about other pods that the other plugins of a profile have registered, by schedulerName.
	podHints map[string][]fwk.ClusterEventWithHint
	// rested is the time before which no gang that was planned in vain is planned again without a turn, see takeTurn. turns
	// is the timer for the next turn, nil if no gang waits for one.
	rested time.Time
	turns  *time.Timer
	// held holds, by assignment, the UID of the PodGroup in whose name the assignment's claims are in flight. A pod may get its next
	// assignment before its last one is ended here.
	held map[*planning.Assignment]types.UID
	// awaited holds the victims that gangs wait for, by gang.
	awaited map[string][]*v1.Pod
	// underway holds the attempts that got as far as Permit, by pod.
	underway map[types.UID]*underway
}

// New returns a Coordinator for the pods of an informer, which must not have been started. PodChanged, NodeChanged and
// GroupChanged must get all events, and StirAll is called after changes of devices and classes.
func New(pods cache.SharedIndexInformer, known Cluster) (*Coordinator, error) {
	c := &Coordinator{
		Cluster: known,
		gangs:   make(map[string]*waiting), handles: make(map[string]Handle), held: make(map[*planning.Assignment]types.UID),
		podHints: make(map[string][]fwk.ClusterEventWithHint), underway: make(map[types.UID]*underway), awaited: make(map[string][]*v1.Pod), pods: pods.GetIndexer(),
	}
	if err := pods.AddIndexers(cache.Indexers{gangIndex: func(obj any) ([]string, error) {
		if pod, ok := obj.(*v1.Pod); ok {
			if key := crd.KeyOf(pod); key != "" {
				return []string{key}, nil
			}
		}
		return nil, nil
	}}); err != nil {
		return nil, fmt.Errorf("index pods by PodGroup: %w", err)
	}
	return c, nil
}

// Times limit or delay the waiting of gangs.
type Times struct {
	// Permit limits how long reserved pods wait for the others of their gang, unless the PodGroup has a limit of its own.
	Permit time.Duration
	// Backoff is the time for which a gang is not tried again after it failed; 0 means a pause that depends on how long
	// planning takes.
	Backoff time.Duration
}

// Serve adds a profile whose pods the Coordinator schedules. If the times of profiles differ, the longest ones apply.
func (c *Coordinator) Serve(profile string, handle Handle, times Times) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.handles[profile] = handle
	c.times = Times{Permit: max(c.times.Permit, times.Permit), Backoff: max(c.times.Backoff, times.Backoff)}
}

// handle returns the handle of the profile that schedules a pod, nil if this scheduler has no such profile.
func (c *Coordinator) handle(pod *v1.Pod) Handle {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.handles[pod.Spec.SchedulerName]
}

// activate makes kube-scheduler try pods again.
func (c *Coordinator) activate(pods []*v1.Pod) {
	byHandle := make(map[Handle]map[string]*v1.Pod)
	for _, pod := range pods {
		handle := c.handle(pod)
		if handle == nil {
			continue
		}
		if byHandle[handle] == nil {
			byHandle[handle] = make(map[string]*v1.Pod)
		}
		byHandle[handle][pod.Namespace+"/"+pod.Name] = pod
	}
	for handle, pods := range byHandle {
		handle.Activate(klog.FromContext(context.Background()), pods)
	}
}
