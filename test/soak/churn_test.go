package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	// users create pods one set after the other. Together they want at most three
	// quarters of the devices, so that every pod can run, but often not on the node or
	// the device that its scheduler thought of first.
	users = 24
	// runTime is how long a set of pods runs at most.
	runTime = 2 * time.Second
	// sharers are how many pods share a claim at most.
	sharers = 4
	// patience is how long a pod that can run may wait for that.
	patience = harness.Patience
	// republishing is the time between two new generations of slices.
	republishing = 200 * time.Millisecond
)

// shared is the kind of claim that several pods use; all others are the names of templates.
const shared = ""

// intruder is somebody who writes what no scheduler should.
type intruder interface {
	fmt.Stringer
	run(ctx context.Context) error
}

// churn are the pods that come and go.
type churn struct {
	space    *harness.Space
	reports  *reports
	intruder intruder
	// evicts is set if pods may be evicted.
	evicts   bool
	profiles []string
	// kinds of claims are as frequent as they are here.
	kinds []string
	// pools are the names of slices, a pool after the other.
	pools [][]string
	// bound counts pods by profile.
	bound       map[string]*atomic.Int64
	sets        atomic.Int64
	generations atomic.Int64

	mutex sync.Mutex
	errs  []error
}

func newChurn(s *harness.Space, r *reports, i intruder, kinds ...string) *churn {
	c := &churn{space: s, reports: r, intruder: i, kinds: kinds, profiles: profilesOf(r.ours), bound: make(map[string]*atomic.Int64)}
	for _, profile := range c.profiles {
		c.bound[profile] = new(atomic.Int64)
	}
	return c
}

func (c *churn) String() string {
	var bound []string
	for _, profile := range c.profiles {
		bound = append(bound, fmt.Sprintf("%s %d", profile, c.bound[profile].Load()))
	}
	return fmt.Sprintf("%d sets of pods came and went; bound: %s; %d new generations of pools; %s",
		c.sets.Load(), strings.Join(bound, ", "), c.generations.Load(), c.intruder)
}

func (c *churn) err() error { return errors.Join(c.errs...) }

func (c *churn) failed(err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.errs = append(c.errs, err)
}

// start has users and a driver do what they do until the context is done. The channel is
// closed when all of them have cleaned up.
func (c *churn) start(ctx context.Context) <-chan struct{} {
	var busy sync.WaitGroup
	for user := range users {
		busy.Go(func() {
			random := rand.New(rand.NewPCG(uint64(user), 0))
			for i := 0; ctx.Err() == nil; i++ {
				// A set that has begun is brought to its end.
				if err := c.set(c.space.T.Context(), fmt.Sprintf("user-%d-%d", user, i), random); err != nil {
					c.failed(err)
					return
				}
				c.sets.Add(1)
			}
		})
	}
	busy.Go(func() { c.republish(ctx) })
	busy.Go(func() {
		if err := c.intruder.run(ctx); err != nil {
			c.failed(err)
		}
	})
	done := make(chan struct{})
	go func() {
		busy.Wait()
		close(done)
	}()
	return done
}

// set creates pods, waits until all run, lets them run for a while and deletes them.
func (c *churn) set(ctx context.Context, name string, random *rand.Rand) error {
	kind := c.kinds[random.IntN(len(c.kinds))]
	count, uses := 1, builder.FromTemplate(kind)
	if kind == shared {
		count, uses = 2+random.IntN(sharers-1), builder.Uses(name)
		claim := builder.Claim(name, c.space.Want(1)).Obj()
		if err := cluster.Objects.Create(ctx, c.space.Name, claim); err != nil {
			return err
		}
		defer func() {
			if err := cluster.Objects.Delete(ctx, c.space.Name, claim); err != nil {
				c.failed(err)
			}
		}()
	}
	var names []string
	for i := range count {
		profile := c.profiles[random.IntN(len(c.profiles))]
		names = append(names, fmt.Sprintf("%s-%d", name, i))
		if err := c.create(ctx, names[i], profile, uses); err != nil {
			return err
		}
	}
	if err := harness.Poll(ctx, patience, func(context.Context) error { return c.allRun(ctx, names) }); err != nil {
		return fmt.Errorf("set %s did not run within %s: %w", name, patience, err)
	}
	c.count(names)
	pause(ctx, time.Duration(random.Int64N(int64(runTime))))
	return c.remove(ctx, names)
}

func (c *churn) create(ctx context.Context, name, profile string, uses []corev1.PodResourceClaim) error {
	pod := c.space.Pod(name, uses)
	pod.Spec.SchedulerName = profile
	return cluster.Objects.Create(ctx, c.space.Name, pod)
}

// allRun returns nil if all pods run but for those that were evicted.
func (c *churn) allRun(ctx context.Context, names []string) error {
	for _, name := range names {
		pod, err := c.space.KnownPod(name)
		if c.evicts && apierrors.IsNotFound(err) && c.wasEvicted(ctx, name) {
			continue
		}
		if err != nil {
			return err
		}
		if err := c.space.Runs(pod); err != nil {
			return fmt.Errorf("scheduler %s: %w", pod.Spec.SchedulerName, err)
		}
	}
	return nil
}

// wasEvicted reports whether a pod that was created is gone, and not only unknown yet: nobody
// else deletes pods before they run.
func (c *churn) wasEvicted(ctx context.Context, name string) bool {
	_, err := cluster.Client.CoreV1().Pods(c.space.Name).Get(ctx, name, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

func (c *churn) count(names []string) {
	for _, name := range names {
		if pod, err := c.space.KnownPod(name); err == nil {
			c.bound[pod.Spec.SchedulerName].Add(1)
		}
	}
}

// remove deletes the pods, when conflicts that they have part in are reported, and waits until
// they are gone.
func (c *churn) remove(ctx context.Context, names []string) error {
	if err := c.reports.keep(ctx, names); err != nil {
		return err
	}
	for _, name := range names {
		// A pod may have been evicted.
		if err := cluster.Client.CoreV1().Pods(c.space.Name).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return harness.Poll(ctx, patience, func(context.Context) error {
		for _, name := range names {
			if _, err := c.space.KnownPod(name); !apierrors.IsNotFound(err) {
				return fmt.Errorf("pod %s was deleted, but it is still there (%v)", name, err)
			}
		}
		return nil
	})
}

// republish has the drivers of all nodes publish their devices anew, in turn.
func (c *churn) republish(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		err := c.renew(c.space.T.Context(), c.pools[i%len(c.pools)]) // One that has begun is brought to its end.
		if err == nil {
			c.generations.Add(1)
		} else if ctx.Err() == nil {
			c.failed(fmt.Errorf("publish a new generation: %w", err))
			return
		}
		pause(ctx, republishing)
	}
}

// renew publishes a pool anew, slice by slice: in between it is incomplete.
func (c *churn) renew(ctx context.Context, pool []string) error {
	slices := cluster.Client.ResourceV1().ResourceSlices()
	for _, name := range pool {
		slice, err := slices.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		slice.Spec.Pool.Generation++
		if _, err := slices.Update(ctx, slice, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// pause is how load is spread over time; nothing depends on its length.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
