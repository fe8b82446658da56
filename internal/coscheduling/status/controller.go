// Package status writes the status of PodGroups of scheduler-plugins, as the controller of that project does: of all
// groups in the cluster, whoever schedules their pods. It runs in the scheduler's process, in the one that leads.
//
// If two schedulers of ours run that do not share an election, both write. They come to the same results, and as
// each write is for the version of the group that it was made from, none undoes the other's. Beside scheduler-plugins'
// own controller it should not run: where that counts differently (package phase has the list), the two would take
// turns.
package status

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/coscheduling"
)

const (
	// settle is how long more pods of a group are waited for that change as well: a gang's pods start together.
	settle = 200 * time.Millisecond
	// askAgain is how often a process that does not lead asks whether it does by now.
	askAgain = time.Second
	// firstRetry and lastRetry are the pauses after writes that failed; the pause doubles each time.
	firstRetry, lastRetry = 5 * time.Millisecond, time.Minute
)

// Controller writes the status of PodGroups. Its methods are safe for concurrent use.
type Controller struct {
	groups *coscheduling.Groups
	client dynamic.NamespaceableResourceInterface
	leads  func() error
	// pods are those that name a group, also those that have ended.
	pods cache.SharedIndexInformer
	// queue has the namespace/name of groups to look at.
	queue workqueue.TypedRateLimitingInterface[string]
	// denied is set once a write was refused for want of a right. Only the worker uses it.
	denied bool
}

// New returns one that writes nothing yet. client is for watching pods: a scheduler's own informer does not do, as it knows
// no pods that have ended. writer is for the PodGroups. leads returns nil while this process may write.
func New(client kubernetes.Interface, writer dynamic.Interface, groups *coscheduling.Groups, leads func() error) *Controller {
	c := &Controller{
		groups: groups,
		client: writer.Resource(v1alpha1.SchemeGroupVersion.WithResource("podgroups")),
		leads:  leads,
		pods:   newPodInformer(client),
		queue:  workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)),
	}
	// It fails only for an informer that has been stopped.
	_, _ = c.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.podChanged,
		UpdateFunc: func(before, after any) {
			c.podChanged(before) // The label may have changed.
			c.podChanged(after)
		},
		DeleteFunc: c.podChanged,
	})
	groups.OnChange(c.groupChanged)
	return c
}

func (c *Controller) groupChanged(_, after *v1alpha1.PodGroup) {
	if after != nil {
		c.queue.Add(after.Namespace + "/" + after.Name)
	}
}

func (c *Controller) podChanged(obj any) {
	if pod := podOf(obj); pod != nil {
		c.queue.AddAfter(coscheduling.KeyOf(pod), settle)
	}
}

// Run writes until the context ends. Pods are watched from when there is a PodGroup and this process leads: most clusters
// have none, and most processes do not lead. Run is called once.
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

// awaitLead returns true when this process leads, false when the context ends. What changes meanwhile stays in the queue,
// where each group is once.
func (c *Controller) awaitLead(ctx context.Context) bool {
	for c.leads() != nil {
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
