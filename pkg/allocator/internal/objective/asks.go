package objective

import (
	"context"
	"iter"
	"slices"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Asks returns the requests of a task as a demand counts them, see allocator.Task. It leaves out requests that
// cannot be judged (yet), and claims for more devices than the API allows, because they can never be granted.
func Asks(ctx context.Context, t *task.Task, pools []*inventory.NodePool) (asks []Ask) {
	for _, c := range t.Claims() {
		first, left := len(asks), c.Most
		for r := range judged(c) {
			ask := askOf(ctx, t, r, pools)
			if ask.Count > left {
				asks = asks[:first]
				break
			}
			if ask.Count > 0 {
				asks, left = append(asks, ask), left-ask.Count
			}
		}
	}
	return asks
}

// judged yields the first alternative of each request of a claim that can be judged. It skips admin access,
// which takes nothing from others.
func judged(c *task.Claim) iter.Seq[*task.Request] {
	return func(yield func(*task.Request) bool) {
		for slot := range c.Slots {
			if len(c.Slots[slot].Alternatives) == 0 || c.Slots[slot].Err != nil {
				continue
			}
			if r := c.Slots[slot].Alternatives[0]; r.Err == nil && !r.Admin && !yield(r) {
				return
			}
		}
	}
}

// Matched returns the number of requests of a task with matching devices in some pools, and the number of all requests.
func Matched(ctx context.Context, t *task.Task, pools []*inventory.NodePool) (matched, all int) {
	for _, c := range t.Claims() {
		for r := range judged(c) {
			all++
			if slices.ContainsFunc(pools, func(pool *inventory.NodePool) bool {
				if pool.State != inventory.Complete {
					return false
				}
				selection, err := t.Settings().Evaluator.Select(ctx, pool, r.Wanted)
				return err == nil && selection.Matches.Intersects(pool.Reachable)
			}) {
				matched++
			}
		}
	}
	return matched, all
}

// askOf returns one request as an Ask. The amount of a share is that on the first device that matches.
func askOf(ctx context.Context, t *task.Task, r *task.Request, pools []*inventory.NodePool) Ask {
	ask := Ask{Kind: r.Wanted.Text(), Count: int(r.Count)}
	if r.Wanted.IsEmpty() {
		ask.Kind = AnyDevice
	}
	if r.All() {
		ask.Count = 0
	}
	sharing, known, pending := t.Settings().Features.ConsumableCapacity, false, false
	for _, pool := range pools {
		if pool.State != inventory.Complete || !r.All() && (known || !sharing) {
			continue
		}
		selection, err := t.Settings().Evaluator.Select(ctx, pool, r.Wanted)
		if err != nil {
			pending = true
			continue
		}
		for device := range selection.Matches.All() {
			if !pool.Reachable.Has(device) {
				continue
			}
			if r.All() {
				ask.Count++
			}
			if sharing && !known && bitset.Has(pool.Shareable, device) {
				ask.Amount = amountOf(t, r, &pool.Devices[device])
			}
			known = true
		}
	}
	if pending && (r.All() || !known) {
		ask.Count = 0 // The count is unknown.
	}
	return ask
}

// amountOf returns the fraction of a device that a request takes, 0 for the whole device.
func amountOf(t *task.Task, r *task.Request, device *inventory.Device) float64 {
	needed, err := t.Settings().Capacities().Consume(r.Capacity, device.Capacity)
	if err != nil || needed.Refused || len(device.Capacity) == 0 {
		return 0
	}
	if left := Left(device, nil, needed.Amounts); left > 0 {
		return 1 - left
	}
	return 0
}
