package status

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

const (
	// settle is the wait for changes of more pods of a group: a gang's pods start together.
	settle = 200 * time.Millisecond
	// askAgain is the interval at which a process that does not lead checks whether it leads.
	askAgain = time.Second
	// firstRetry and lastRetry limit the pause after a failed write; it doubles each time.
	firstRetry, lastRetry = 5 * time.Millisecond, time.Minute
	// steps limits the writes without a pause after a change of a group or its pods: a group passes through fewer phases. From then on,
	// somebody else writes other values; the pause between two writes doubles each time, from firstPause up to lastRetry.
	steps, firstPause = 6, time.Second
)

// A Controller writes the status of PodGroups. Its methods are safe for concurrent use.
type Controller struct {
	groups *crd.Groups
	client dynamic.NamespaceableResourceInterface
	leader lease.Leadership
	// pods holds the pods that name a group, including those that have ended.
	pods cache.SharedIndexInformer
	// queue holds the "namespace/name" of groups to check.
	queue workqueue.TypedRateLimitingInterface[string]
	// writes are those since the last change of a group or its pods, by the group's "namespace/name".
	mutex  sync.Mutex
	writes map[string]writes
	// denied is set once a write was forbidden. Only the worker uses it.
	denied bool
}

type writes struct {
	number int
	last   time.Time
}

// New returns a Controller. client watches pods: the scheduler's own informer lacks pods that have ended. writer writes
// the PodGroups. leader says whether this process may write.
func New(client kubernetes.Interface, writer dynamic.Interface, groups *crd.Groups, leader lease.Leadership) *Controller {
	c := &Controller{
		groups: groups,
		client: writer.Resource(v1alpha1.SchemeGroupVersion.WithResource("podgroups")),
		leader: leader,
		pods:   newPodInformer(client),
		writes: make(map[string]writes),
		queue:  workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)),
	}
	_, _ = informer.Follow(c.pods, c.podChanged) // It fails only if the informer was stopped.
	groups.OnChange(c.groupChanged)
	return c
}

func (c *Controller) groupChanged(before, after *v1alpha1.PodGroup) {
	if after == nil {
		c.changed(before.Namespace + "/" + before.Name)
		return
	}
	key := after.Namespace + "/" + after.Name
	if before == nil || before.UID != after.UID || !quantity.DeepEqual(before.Spec, after.Spec) {
		c.changed(key)
	}
	c.queue.Add(key)
}

func (c *Controller) podChanged(e informer.Event[v1.Pod]) {
	for _, pod := range []*v1.Pod{e.Before, e.After} { // The label may have changed.
		if pod != nil && crd.KeyOf(pod) != "" {
			c.changed(crd.KeyOf(pod))
			c.queue.AddAfter(crd.KeyOf(pod), settle)
		}
	}
}

// changed forgets the writes for a group, because the group or one of its pods has changed.
func (c *Controller) changed(key string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.writes, key)
}

// wrote counts a write for a group.
func (c *Controller) wrote(key string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.writes[key] = writes{c.writes[key].number + 1, time.Now()}
}

// pause returns the time until the next write for a group.
func (c *Controller) pause(key string) time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	sent := c.writes[key]
	if sent.number < steps {
		return 0
	}
	return time.Until(sent.last.Add(min(lastRetry, firstPause<<min(sent.number-steps, 10))))
}

// Run writes until the context ends. It watches pods only once there is a PodGroup and this process leads: most
// clusters have no PodGroups, and most processes do not lead. Run must be called only once.
func (c *Controller) Run(ctx context.Context) {
	defer c.queue.ShutDown()
	defer context.AfterFunc(ctx, c.queue.ShutDown)()
	var watching sync.WaitGroup
	defer watching.Wait()
	for started := false; ; {
		key, ended := c.queue.Get()
		if ended || !c.awaitLead(ctx) {
			return
		}
		if !started {
			started = true
			watching.Go(func() { c.pods.RunWithContext(ctx) })
			if !cache.WaitForCacheSync(ctx.Done(), c.pods.HasSynced) {
				return
			}
		}
		c.process(ctx, key)
	}
}

// awaitLead returns true once this process leads, false when the context ends. Changes meanwhile stay in the queue,
// which holds each group once.
func (c *Controller) awaitLead(ctx context.Context) bool {
	for c.leader.Leads() != nil {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(askAgain):
		}
	}
	return ctx.Err() == nil
}

func (c *Controller) process(ctx context.Context, key string) {
	defer c.queue.Done(key)
	err := c.write(ctx, key)
	if err == nil {
		c.queue.Forget(key)
		return
	}
	if ctx.Err() == nil {
		c.report(klog.FromContext(ctx), key, err)
		c.queue.AddRateLimited(key)
	}
}
