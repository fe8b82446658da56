package conductor

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

	"github.com/quartermaster-dra/quartermaster/internal/coscheduling"
	"github.com/quartermaster-dra/quartermaster/internal/gang/roster"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Handle is what is needed of kube-scheduler.
type Handle interface {
	fwk.PodNominator
	fwk.PodActivator
	GetWaitingPod(uid types.UID) fwk.WaitingPod
}

// Conductor has the gangs of all profiles of a scheduler. It is safe for concurrent use.
type Conductor struct {
	// Lookup returns the PodGroup of that namespace and name; its error says what to do.
	Lookup func(namespace, name string) (*v1alpha1.PodGroup, error)
	// Ready returns why a pod cannot be tried at all yet, nil if it can.
	Ready  func(*v1.Pod) error
	Ledger *ledger.Ledger
	// Freed is told of devices that are not held for a gang any more.
	Freed func(ledger.Freed)
	// Backed reports whether devices may back a resource (KEP-5004), so that the plan says whether there is enough of it; nil if
	// that is so of none.
	Backed func(v1.ResourceName) bool

	pods   cache.Indexer
	roster roster.Roster
	mutex  sync.Mutex
	// gangs are those that wait, by "namespace/name".
	gangs map[string]*waiting
	// handles are those of the profiles, by the name of the scheduler, and times what these say about waiting.
	handles map[string]Handle
	times   Times
	// rested is until when no gang that waits is planned again, see takeTurn; turns is set if somebody waits for that.
	rested time.Time
	turns  *time.Timer
	// held has in whose name claims are in flight for seats. A pod may have got another one before its last one is ended.
	held map[*roster.Seat]types.UID
	// awaited are the pods for whose end gangs wait, by gang.
	awaited map[string][]*v1.Pod
	// underway are attempts that got as far as Permit, by pod.
	underway map[types.UID]*underway
}

// New makes a conductor for the pods of an informer, which must not have been started.
func New(pods cache.SharedIndexInformer) (*Conductor, error) {
	c := &Conductor{
		gangs: make(map[string]*waiting), handles: make(map[string]Handle), held: make(map[*roster.Seat]types.UID),
		underway: make(map[types.UID]*underway), awaited: make(map[string][]*v1.Pod), pods: pods.GetIndexer(),
	}
	if err := pods.AddIndexers(cache.Indexers{gangIndex: func(obj any) ([]string, error) {
		if pod, ok := obj.(*v1.Pod); ok {
			if key := coscheduling.KeyOf(pod); key != "" {
				return []string{key}, nil
			}
		}
		return nil, nil
	}}); err != nil {
		return nil, fmt.Errorf("index pods by PodGroup: %w", err)
	}
	return c, nil
}

// Times are for how long gangs wait for something.
type Times struct {
	// Permit is how long pods that are reserved wait for the others of their gang, unless the group says so itself.
	Permit time.Duration
	// Backoff is for how long a gang is not tried again after it failed; 0 means a pause that depends on how long trying takes.
	Backoff time.Duration
}

// Serve has the pods of one more profile scheduled. Of what profiles say about waiting, the longest counts.
func (c *Conductor) Serve(profile string, handle Handle, times Times) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.handles[profile] = handle
	c.times = Times{Permit: max(c.times.Permit, times.Permit), Backoff: max(c.times.Backoff, times.Backoff)}
}

// handle returns that of the profile by which a pod is scheduled, nil if it is none of ours.
func (c *Conductor) handle(pod *v1.Pod) Handle {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.handles[pod.Spec.SchedulerName]
}

// activate has pods tried again.
func (c *Conductor) activate(pods []*v1.Pod) {
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
