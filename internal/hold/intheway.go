package hold

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// wantedKey is the key of the claims in a pool whose devices pods of a kind may get.
type wantedKey struct {
	kind string
	pool *inventory.NodePool
}

// inTheWay returns the claims whose end may help a pod on a node, some of them twice: they have a device that it may get, or a pod on the node.
// A pool that all nodes reach may have thousands of other claims.
func (t *trial) inTheWay(pod *Pod, node *Node) (claims []*Holding) {
	add := func(holdings []*Holding) {
		for _, holding := range holdings {
			if t.gone[holding.Use.Claim.UID] == nil && t.endOf(holding).Kind != Never {
				claims = append(claims, holding)
			}
		}
	}
	for i, pool := range node.Pools {
		add(t.wantedIn(pod, pool, node.Claims[i]))
	}
	add(t.world.claimsOn(node.Name))
	return claims
}

// wantedIn returns those of the claims in a pool that hold a device which a pod may get.
func (t *trial) wantedIn(pod *Pod, pool *inventory.NodePool, claims []types.UID) []*Holding {
	key := wantedKey{pod.Kind, pool}
	wanted, known := t.wanted[key]
	if known {
		return wanted
	}
	for _, claim := range claims {
		if holding := t.world.Holding(claim); holding != nil && pod.Wants(pool, holding.Use.DevicesIn(pool.ID)...) {
			wanted = append(wanted, holding)
		}
	}
	t.wanted[key] = wanted
	return wanted
}

// claimsOn returns the claims of the pods on a node.
func (w *World) claimsOn(node string) []*Holding {
	if w.on == nil {
		w.on = make(map[string][]*Holding)
		seen, lists := make(map[types.UID]bool), make(map[*types.UID]bool)
		for i := range w.Nodes {
			for _, claims := range w.Nodes[i].Claims {
				if len(claims) > 0 && !lists[&claims[0]] { // Nodes share the list of a pool.
					lists[&claims[0]] = true
					w.addRunning(claims, seen)
				}
			}
		}
	}
	return w.on[node]
}

func (w *World) addRunning(claims []types.UID, seen map[types.UID]bool) {
	for _, claim := range claims {
		holding := w.Holding(claim)
		if seen[claim] || holding == nil {
			continue
		}
		seen[claim] = true
		for _, runner := range holding.Pods { // Hundreds may share a claim.
			if on := w.on[runner.Node]; len(on) == 0 || on[len(on)-1] != holding {
				w.on[runner.Node] = append(on, holding)
			}
		}
	}
}
