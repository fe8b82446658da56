package quartermaster

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// bruteWorld is a small cluster in which an exhaustive search answers questions about preemption. It does not use the
// plugin.
type bruteWorld struct {
	nodes   []string
	pools   []brutePool
	claims  []*bruteClaim
	pods    []*brutePod
	budgets map[string]int // allowed disruptions by app
	// wants are the claims of the preemptor that are to be allocated, and own one that it shares, nil if none.
	wants []*bruteClaim
	own   *bruteClaim
}

// brutePool has devices that some nodes reach, which may draw from a counter.
type brutePool struct {
	name    string
	nodes   []string // all if empty
	counter int      // 0 if there is none
	devices []bruteDevice
}

type bruteDevice struct {
	name, kind string
	draws      int
}

// bruteClaim has one request: for a number of devices of a kind, or of any, or for all of them if it is 0.
type bruteClaim struct {
	name, kind string
	count      int
	// pool and devices are the allocation, users the consumers.
	pool    *brutePool
	devices []string
	users   []*brutePod
}

type brutePod struct {
	name, node, app string
	priority        int32
	started         int64
	leaves          bool // It is being deleted.
}

// brutePriority is that of the preemptor.
const brutePriority = 10

func (p *brutePool) reaches(node string) bool {
	return len(p.nodes) == 0 || slices.Contains(p.nodes, node)
}

func (p *brutePool) device(name string) bruteDevice {
	return p.devices[slices.IndexFunc(p.devices, func(d bruteDevice) bool { return d.name == name })]
}

// fits reports whether the preemptor's claims can be allocated on a node without some pods.
func (w *bruteWorld) fits(node string, gone []*brutePod) bool {
	used := make(map[string]bool) // by pool/device
	left := make(map[string]int)  // of counters by pool
	for _, pool := range w.pools {
		left[pool.name] = pool.counter
	}
	for _, claim := range w.claims {
		if claim != w.own && !slices.ContainsFunc(claim.users, func(p *brutePod) bool { return !slices.Contains(gone, p) }) {
			continue
		}
		for _, name := range claim.devices {
			used[claim.pool.name+"/"+name] = true
			left[claim.pool.name] -= claim.pool.device(name).draws
		}
	}
	return w.allocate(node, w.wants, 0, used, left)
}

// allocate tries all devices for the first claim's next device, and for all that follow.
func (w *bruteWorld) allocate(node string, claims []*bruteClaim, got int, used map[string]bool, left map[string]int) bool {
	if len(claims) == 0 {
		return true
	}
	claim, all := claims[0], claims[0].count == 0
	matching := 0
	for i := range w.pools {
		pool := &w.pools[i]
		if !pool.reaches(node) {
			continue
		}
		for _, device := range pool.devices {
			if claim.kind != "" && claim.kind != device.kind {
				continue
			}
			matching++
			id := pool.name + "/" + device.name
			if all && matching <= got {
				continue
			}
			if used[id] || pool.counter > 0 && left[pool.name] < device.draws {
				if all {
					return false
				}
				continue
			}
			used[id] = true
			left[pool.name] -= device.draws
			next, have := claims, got+1
			if have == claim.count {
				next, have = claims[1:], 0
			}
			if w.allocate(node, next, have, used, left) {
				return true
			}
			used[id] = false
			left[pool.name] += device.draws
			if all {
				return false
			}
		}
	}
	return all && matching > 0 && matching == got && w.allocate(node, claims[1:], 0, used, left)
}

// below returns the pods that may be evicted.
func (w *bruteWorld) below() (pods []*brutePod) {
	for _, pod := range w.pods {
		if pod.priority < brutePriority {
			pods = append(pods, pod)
		}
	}
	return pods
}

// concerned returns the pods that upstream would look at if it knew devices: those on the node, and those that hold
// devices which the node reaches.
func (w *bruteWorld) concerned(node string) []*brutePod {
	return slices.DeleteFunc(w.below(), func(pod *brutePod) bool {
		return pod.node != node && !slices.ContainsFunc(w.claims, func(claim *bruteClaim) bool {
			return claim.pool.reaches(node) && slices.Contains(claim.users, pod)
		})
	})
}

// bruteVictims are the pods that upstream's algorithm would choose for a node.
type bruteVictims struct {
	pods      []*brutePod // the most important first
	violating int
}

// moreImportant is upstream's order, except that pods being deleted come last.
func moreImportant(a, b *brutePod) int {
	if a.leaves != b.leaves {
		if a.leaves {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.started, b.started))
}

// victims removes all pods and puts back those that need not go, first those that would violate their budgets.
func (w *bruteWorld) victims(node string) *bruteVictims {
	gone := w.concerned(node)
	if !w.fits(node, gone) {
		return nil
	}
	slices.SortFunc(gone, moreImportant)
	var violating, others []*brutePod
	seen := make(map[string]int)
	for _, pod := range gone {
		allowed, has := w.budgets[pod.app]
		if seen[pod.app]++; has && seen[pod.app] > allowed {
			violating = append(violating, pod)
		} else {
			others = append(others, pod)
		}
	}
	result := &bruteVictims{}
	for i, pod := range slices.Concat(violating, others) {
		without := slices.DeleteFunc(slices.Clone(gone), func(p *brutePod) bool { return p == pod })
		if w.fits(node, without) {
			gone = without
		} else if i < len(violating) {
			result.violating++
		}
	}
	result.pods = gone
	return result
}

// score compares nodes field by field; the smallest is the best.
func (v *bruteVictims) score() []int64 {
	highest, sum, earliest := int64(math.MinInt64), int64(0), int64(math.MaxInt64)
	for _, pod := range v.pods {
		sum += int64(pod.priority) + math.MaxInt32 + 1
		if int64(pod.priority) > highest {
			highest, earliest = int64(pod.priority), pod.started
		} else if int64(pod.priority) == highest {
			earliest = min(earliest, pod.started)
		}
	}
	return []int64{int64(v.violating), highest, sum, int64(len(v.pods)), -earliest}
}

// violations counts the pods that go beyond their budgets.
func (w *bruteWorld) violations(gone []*brutePod) (sum int) {
	byApp := make(map[string]int)
	for _, pod := range gone {
		byApp[pod.app]++
	}
	for app, allowed := range w.budgets {
		sum += max(0, byApp[app]-allowed)
	}
	return sum
}

func (v *bruteVictims) names() []string {
	var names []string
	for _, pod := range v.pods {
		names = append(names, pod.name)
	}
	slices.Sort(names)
	return names
}

// best is the best score of any node, nil if there is no node.
func (w *bruteWorld) best() []int64 {
	var best []int64
	for _, node := range w.nodes {
		if victims := w.victims(node); victims != nil && (best == nil || slices.Compare(victims.score(), best) < 0) {
			best = victims.score()
		}
	}
	return best
}

// smaller returns a proper subset of pods that is enough for a node, nil if there is none.
func (w *bruteWorld) smaller(node string, pods []*brutePod) []*brutePod {
	for set := uint(0); set < 1<<len(pods)-1; set++ {
		subset := make([]*brutePod, 0, bits.OnesCount(set))
		for i, pod := range pods {
			if set&(1<<i) != 0 {
				subset = append(subset, pod)
			}
		}
		if w.fits(node, subset) {
			return subset
		}
	}
	return nil
}

// String describes the world in failure messages.
func (w *bruteWorld) String() string {
	var text strings.Builder
	for _, pool := range w.pools {
		fmt.Fprintf(&text, "pool %s: %+v, counter %d, on nodes %v\n", pool.name, pool.devices, pool.counter, pool.nodes)
	}
	for _, claim := range w.claims {
		var users []string
		for _, pod := range claim.users {
			users = append(users, pod.name)
		}
		fmt.Fprintf(&text, "claim %s: %v of pool %s for %v\n", claim.name, claim.devices, claim.pool.name, users)
	}
	for _, pod := range w.pods {
		fmt.Fprintf(&text, "pod %s: priority %d, started %d, leaves %v, app %q, on node %s\n", pod.name, pod.priority, pod.started, pod.leaves, pod.app, pod.node)
	}
	for _, claim := range w.wants {
		fmt.Fprintf(&text, "wanted %s: %d of kind %q\n", claim.name, claim.count, claim.kind)
	}
	if w.own != nil {
		fmt.Fprintf(&text, "has %s as well\n", w.own.name)
	}
	fmt.Fprintf(&text, "budgets %v", w.budgets)
	return text.String()
}
