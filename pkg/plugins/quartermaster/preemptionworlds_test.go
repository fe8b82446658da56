package quartermaster

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// randomWorld makes a small cluster that is rather full.
func randomWorld(r *rand.Rand) *bruteWorld {
	w := &bruteWorld{budgets: make(map[string]int)}
	for i := range 1 + r.IntN(3) {
		w.nodes = append(w.nodes, fmt.Sprintf("n%d", i))
		if r.IntN(5) > 0 {
			w.pools = append(w.pools, randomPool(r, w.nodes[i], w.nodes[i]))
		}
	}
	if r.IntN(2) == 0 || len(w.pools) == 0 {
		w.pools = append(w.pools, randomPool(r, "net"))
	}
	if len(w.nodes) > 1 && r.IntN(4) == 0 {
		w.pools = append(w.pools, randomPool(r, "rack", "n0", "n1"))
	}
	for i := range 1 + r.IntN(8) {
		w.pods = append(w.pods, &brutePod{
			name: fmt.Sprintf("p%d", i), node: w.nodes[r.IntN(len(w.nodes))], app: []string{"", "x", "y"}[r.IntN(3)],
			priority: int32(r.IntN(18) - 5), leaves: r.IntN(10) == 0,
		})
	}
	for i, started := range r.Perm(len(w.pods)) {
		w.pods[i].started = int64(1000 + started)
	}
	for i, pod := range w.pods {
		for j := range []int{0, 1, 1, 2, 2, 3}[r.IntN(6)] {
			w.hold(r, fmt.Sprintf("c%d-%d", i, j), pod)
		}
	}
	for i := range []int{1, 1, 2}[r.IntN(3)] {
		w.wants = append(w.wants, &bruteClaim{name: fmt.Sprintf("wanted%d", i), kind: randomKind(r), count: []int{0, 1, 1, 1, 2, 2, 3}[r.IntN(7)]})
	}
	if len(w.claims) > 0 && r.IntN(10) == 0 {
		w.own = w.claims[r.IntN(len(w.claims))]
	}
	for _, app := range []string{"x", "y"} {
		if r.IntN(3) == 0 {
			w.budgets[app] = r.IntN(2)
		}
	}
	return w
}

func randomPool(r *rand.Rand, name string, nodes ...string) brutePool {
	pool := brutePool{name: name, nodes: nodes}
	if r.IntN(3) == 0 {
		pool.counter = 2 + r.IntN(3)
	}
	for i := range 1 + r.IntN(4) {
		device := bruteDevice{name: fmt.Sprintf("d%d", i), kind: []string{"a", "b"}[r.IntN(2)]}
		if pool.counter > 0 {
			device.draws = 1 + r.IntN(min(3, pool.counter))
		}
		pool.devices = append(pool.devices, device)
	}
	return pool
}

func randomKind(r *rand.Rand) string { return []string{"", "", "", "a", "b"}[r.IntN(5)] }

// hold gives a claim with one or two free devices to a pod and, now and then, to another one that reaches them.
func (w *bruteWorld) hold(r *rand.Rand, name string, pod *brutePod) {
	pool := &w.pools[r.IntN(len(w.pools))]
	if !pool.reaches(pod.node) {
		return
	}
	left, used := pool.counter, make(map[string]bool)
	for _, claim := range w.claims {
		if claim.pool != pool {
			continue
		}
		for _, device := range claim.devices {
			used[device] = true
			left -= pool.device(device).draws
		}
	}
	claim := &bruteClaim{name: name, pool: pool, users: []*brutePod{pod}}
	for _, i := range r.Perm(len(pool.devices)) {
		if device := pool.devices[i]; !used[device.name] && left >= device.draws && len(claim.devices) < 2 && (len(claim.devices) == 0 || r.IntN(3) == 0) {
			claim.devices = append(claim.devices, device.name)
			left -= device.draws
		}
	}
	if claim.count = len(claim.devices); claim.count == 0 {
		return
	}
	if other := w.pods[r.IntN(len(w.pods))]; r.IntN(4) == 0 && pool.reaches(other.node) && !slices.Contains(claim.users, other) {
		claim.users = append(claim.users, other)
	}
	w.claims = append(w.claims, claim)
}
