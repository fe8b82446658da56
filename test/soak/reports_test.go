package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// conflictEvent is the reason of the events about conflicts.
const conflictEvent = "DeviceConflict"

// reports follows each pair of claims that the detective has found until it is reported. Its
// pods are kept meanwhile, so that it lasts: what is over before the schedulers' grace is
// reported by nobody.
//
// A scheduler has reported a pair when there are Warning events of its own on both claims and
// on a pod of each, and when it has counted one more conflict of the pool than it has reported
// pairs there. All schedulers of ours have to; with onConflict: Evict one of them is enough,
// because the pods that it evicts may end the conflict for the others.
type reports struct {
	space *harness.Space
	ours  []*harness.Scheduler
	// enough is how many schedulers of ours have to report a pair.
	enough int

	mutex sync.Mutex
	open  map[pairKey]pair
	// by are the schedulers (by number) that have reported an open pair.
	by map[pairKey]sets.Set[int]
	// credited are how many pairs each scheduler has reported, by its number and the pool.
	credited []map[string]int
	reported map[pairKey]pair
	// ended are the pairs that were over before they had to be reported.
	ended int
}

func newReports(s *harness.Space, ours []*harness.Scheduler, enough int) *reports {
	r := &reports{space: s, ours: ours, enough: enough, open: make(map[pairKey]pair),
		by: make(map[pairKey]sets.Set[int]), reported: make(map[pairKey]pair)}
	for range ours {
		r.credited = append(r.credited, make(map[string]int))
	}
	return r
}

func (r *reports) String() string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return fmt.Sprintf("reported by events and metric: %d, over before: %d, open: %d", len(r.reported), r.ended, len(r.open))
}

func (r *reports) found(key pairKey, p pair) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if _, done := r.reported[key]; !done && r.by[key] == nil {
		r.open[key], r.by[key] = p, sets.New[int]()
	}
}

// look finds out which open pairs have been reported, and which are over.
func (r *reports) look(ctx context.Context, still map[pairKey]pair) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if len(r.open) == 0 {
		return nil
	}
	told, err := r.told(ctx)
	if err != nil {
		return err
	}
	for i, scheduler := range r.ours {
		metrics, err := scheduler.ReadMetrics(ctx)
		if err != nil {
			return err
		}
		for key, p := range r.open {
			counted := int(metrics.Sum("quartermaster_device_conflicts_total", "driver", r.space.Driver, "pool", p.pool()))
			if !r.by[key].Has(i) && p.isTold(told[scheduler.Profile]) && counted > r.credited[i][p.pool()] {
				r.by[key].Insert(i)
				r.credited[i][p.pool()]++
			}
		}
	}
	for key, p := range r.open {
		_, lasts := still[key]
		switch {
		case len(r.by[key]) >= r.enough:
			r.reported[key] = p
		case !lasts:
			r.ended++
		default:
			continue
		}
		delete(r.open, key)
		delete(r.by, key)
	}
	return nil
}

// told are the UIDs of claims and pods that have an event about a conflict, by who wrote it.
func (r *reports) told(ctx context.Context) (map[string]sets.Set[types.UID], error) {
	events, err := cluster.Client.EventsV1().Events(r.space.Name).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + conflictEvent})
	if err != nil {
		return nil, err
	}
	told := make(map[string]sets.Set[types.UID])
	for _, event := range events.Items {
		if event.Type != "Warning" {
			continue
		}
		if told[event.ReportingController] == nil {
			told[event.ReportingController] = sets.New[types.UID]()
		}
		told[event.ReportingController].Insert(event.Regarding.UID)
	}
	return told, nil
}

// keep waits until all pairs that pods have part in are reported or over. The pods are not
// deleted before.
func (r *reports) keep(ctx context.Context, pods []string) error {
	return harness.Poll(ctx, patience, func(context.Context) error {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		for key, p := range r.open {
			if slices.ContainsFunc(pods, p.has) {
				return fmt.Errorf("after %s, %d schedulers of ours have reported by events and metric that two claims hold %s; %d have to",
					patience, len(r.by[key]), p, r.enough)
			}
		}
		return nil
	})
}

// isReported is nil if a pair of claims, in any order, was found and reported.
func (r *reports) isReported(one, other types.UID) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, key := range []pairKey{{one, other}, {other, one}} {
		if _, done := r.reported[key]; done {
			return nil
		}
		if p, open := r.open[key]; open {
			return fmt.Errorf("%d schedulers of ours have reported by events and metric that two claims hold %s; %d have to", len(r.by[key]), p, r.enough)
		}
	}
	return errors.New("the detective has not found it, or it was over before it was reported")
}

func (p pair) pool() string {
	pool, _, _ := strings.Cut(p.device, "/")
	return pool
}

// has reports whether a pod uses one of the claims.
func (p pair) has(pod string) bool {
	return slices.ContainsFunc(p.claims[:], func(claim *resourceapi.ResourceClaim) bool {
		return slices.ContainsFunc(claim.Status.ReservedFor, func(consumer resourceapi.ResourceClaimConsumerReference) bool { return consumer.Name == pod })
	})
}

// isTold reports whether both claims and a pod of each are among those that have an event.
func (p pair) isTold(told sets.Set[types.UID]) bool {
	for _, claim := range p.claims {
		if !told.Has(claim.UID) || !usedBy(claim, told.Has) {
			return false
		}
	}
	return true
}
