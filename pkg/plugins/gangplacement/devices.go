package gangplacement

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/cluster"
	"github.com/quartermaster-dra/quartermaster/internal/config"
	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// takes determines which devices pods could take. It is created on first use, because its dependencies may not exist
// before.
type takes struct {
	once   sync.Once
	solver *allocator.Solver
	claims *podclaims.Claims
}

func (pl *Plugin) takesIn(state *cluster.State) *takes {
	pl.takes.once.Do(func() {
		manager := pl.handle.SharedDRAManager()
		pl.takes.solver = &allocator.Solver{
			Features:  config.AllocatorFeatures(pl.features),
			Classes:   manager.DeviceClasses(),
			Evaluator: state.Memory.NewEvaluator(config.CELFeatures(pl.features)),
		}
		pl.takes.claims = &podclaims.Claims{
			Stored: state.Claims, Tracked: manager.ResourceClaims(), OfGroups: pl.features.EnableDRAWorkloadResourceClaims,
			Server: api.Of(pl.handle.ClientSet()),
		}
	})
	return &pl.takes
}

// takesDevices reports whether any of the pods may request devices.
func takesDevices(pods []*v1.Pod) bool {
	return slices.ContainsFunc(pods, func(pod *v1.Pod) bool {
		if len(pod.Spec.ResourceClaims) > 0 {
			return true
		}
		for i := range pod.Spec.Containers {
			for name := range pod.Spec.Containers[i].Resources.Requests {
				if kube.IsDRAExtendedResourceName(name) {
					return true
				}
			}
		}
		return false
	})
}

// A kind reports whether a pool has devices that some pods could take. It returns true if that is unknown.
type kind func(context.Context, *inventory.NodePool) bool

// kindOf returns the kind of pools with devices that any of the pods could take; nil if that is unknown.
func (pl *Plugin) kindOf(pods []*v1.Pod) kind {
	state := pl.state()
	if state == nil {
		return nil
	}
	takes := pl.takesIn(state)
	var tasks []*allocator.Task
	known := make(map[string]bool)
	for _, pod := range pods {
		claims, err := takes.claims.Of(pod)
		if err != nil {
			return nil
		}
		task := takes.solver.Prepare(claims)
		if task.Err() != nil {
			return nil
		}
		// Pods of a group are alike, except for the names of their claims.
		if key := string(task.AppendKey(nil)); task.NeedsDevices() && !known[key] {
			known[key] = true
			tasks = append(tasks, task)
		}
	}
	if len(tasks) == 0 {
		return nil // The pods request devices only through extended resources.
	}
	return func(ctx context.Context, pool *inventory.NodePool) bool {
		return slices.ContainsFunc(tasks, func(task *allocator.Task) bool { return task.Interested(ctx, pool) })
	}
}

// selectorTime limits the wait for selectors' expressions: once for all placements of a group, and again for each
// placement that is scored. A device whose selectors are not evaluated in time counts as one that could be taken.
const selectorTime = 100 * time.Millisecond

// evaluate evaluates selectors for the pools of nodes before any placement is tried. Otherwise the first placements
// would be rejected because of missing results, and the choice would be limited to the ones tried later.
func (pl *Plugin) evaluate(ctx context.Context, k kind, nodes []fwk.NodeInfo) {
	state := pl.state()
	if state == nil || k == nil {
		return
	}
	ctx = selector.WithBudget(ctx, selector.NewBudget(selectorTime, 0))
	for _, info := range nodes {
		for _, pool := range state.Inventory.OnNode(info.Node()) {
			if pool.State == inventory.Complete {
				k(ctx, pool)
			}
		}
	}
}

// free counts the free devices on nodes, in pools of the given kind (nil for all). If domains are given for an
// attribute, it counts only devices in these.
func (pl *Plugin) free(ctx context.Context, key domain.Key, domains []string, nodes []fwk.NodeInfo, k kind) int {
	state := pl.state()
	if state == nil {
		return 0
	}
	ctx = selector.WithBudget(ctx, selector.NewBudget(selectorTime, 0))
	// Nodes may see the same devices, or different devices of a layout.
	reached := make(map[*inventory.Layout]*view)
	for _, info := range nodes {
		for _, pool := range state.Inventory.OnNode(info.Node()) {
			v := reached[pool.Layout]
			switch {
			case v != nil:
				v.add(pool)
			case pool.State == inventory.Complete && (k == nil || k(ctx, pool)):
				reached[pool.Layout] = &view{pool: pool, devices: pool.Reachable}
			}
		}
	}
	count := 0
	for _, v := range reached {
		if key.Attribute != "" && len(domains) > 0 {
			v.limit(key, domains)
		}
		count += v.free(state)
	}
	return count
}

// A view is the part of a pool that nodes see together.
type view struct {
	pool    *inventory.NodePool
	devices bitset.Set
	// own is true if devices is a copy that may be changed.
	own bool
}

func (v *view) make() {
	if !v.own {
		v.devices, v.own = v.devices.Clone(), true
	}
}

func (v *view) add(pool *inventory.NodePool) {
	if pool != v.pool {
		v.make()
		v.devices.Or(pool.Reachable)
	}
}

// limit removes the devices outside of some domains.
func (v *view) limit(key domain.Key, domains []string) {
	members := bitset.New(len(v.pool.Devices))
	for _, name := range domains {
		if inside := domain.Members(key, name, v.pool); inside != nil {
			members.Or(inside)
		}
	}
	v.make()
	v.devices.And(members)
}

// free counts the devices that are unused and usable. A device that is in use in part is not free.
func (v *view) free(state *cluster.State) int {
	usage := state.Ledger.OfKey(v.pool.Key)
	v.make()
	for _, set := range []bitset.Set{usage.Occupied(v.pool), usage.Exhausted(v.pool)} {
		if set != nil {
			v.devices.AndNot(set)
		}
	}
	for i := range v.pool.Tainted.All() {
		if v.devices.Has(i) && slices.ContainsFunc(v.pool.Devices[i].Taints, keepsAway) {
			v.devices.Remove(i)
		}
	}
	return v.devices.Len()
}

func keepsAway(taint resourceapi.DeviceTaint) bool {
	return taint.Effect == resourceapi.DeviceTaintEffectNoSchedule || taint.Effect == resourceapi.DeviceTaintEffectNoExecute
}
