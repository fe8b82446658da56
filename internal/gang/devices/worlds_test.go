package devices_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/search"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// world is a small cluster in numbers; the API objects and the exhaustive search are both made from it.
type world struct {
	// cpu and zone are the values of each node.
	cpu   []int
	zone  []string
	kinds []kind
}

// kind is a number of devices that are alike: of one model, in one pool; some of them are in use.
type kind struct {
	pool, model string
	// node is the only node that reaches the devices. If it is -1, all nodes of the zones do, each zone a letter; all
	// nodes if there are none.
	node       int
	zones      string
	all, taken int
}

// want is a request: a number of devices of any of some models, "any" for all of them. Of alternatives, one is taken.
type want struct {
	alternatives []string
	count        int
}

// asked is a class of pods: the requests of each of its claims.
type asked struct {
	pods, cpu int
	own       [][]want
	// shared is a claim that all of them use, nil if there is none; name is its name, by which other classes may use it
	// as well.
	shared []want
	name   string
}

var someModels = []string{"x", "y"}

// randomWorld returns a random cluster. network says whether there are pools that several nodes reach.
func randomWorld(r *rand.Rand, network bool) *world {
	w := &world{}
	for node := range 1 + r.IntN(6) {
		w.cpu, w.zone = append(w.cpu, r.IntN(4)), append(w.zone, []string{"a", "b", "c"}[r.IntN(3)])
		for _, model := range someModels {
			w.kinds = append(w.kinds, kind{pool: fmt.Sprintf("n%d", node), model: model, node: node, all: r.IntN(5) / 2})
		}
	}
	if !network {
		return w
	}
	for i := range 1 + r.IntN(3) {
		// Some are tried before those of nodes, others after them.
		pool, zones := fmt.Sprintf("%s-%d", []string{"a", "z"}[r.IntN(2)], i), []string{"", "a", "ab", "bc", "ca"}[r.IntN(5)]
		for _, model := range someModels {
			w.kinds = append(w.kinds, kind{pool: pool, model: model, node: -1, zones: zones, all: r.IntN(3)})
		}
	}
	return w
}

func (w *world) reaches(node int, k *kind) bool {
	return k.node == node || k.node < 0 && (k.zones == "" || strings.Contains(k.zones, w.zone[node]))
}

func randomWants(r *rand.Rand) (wants []want) {
	models := []string{"x", "y", "any"}
	for range 1 + r.IntN(5)/4 {
		w := want{alternatives: []string{models[r.IntN(3)]}, count: 1 + r.IntN(4)/3}
		if r.IntN(4) == 0 {
			w.alternatives = append(w.alternatives, models[r.IntN(3)])
		}
		wants = append(wants, w)
	}
	return wants
}

// randomGang returns the classes of a random gang. share says whether pods may share claims.
func randomGang(r *rand.Rand, share bool) (classes []asked) {
	left := 4
	for i := range 1 + r.IntN(2) {
		if left == 0 {
			break
		}
		a := asked{pods: 1 + r.IntN(left), cpu: r.IntN(3), name: "shared-0"}
		left -= a.pods
		if share && r.IntN(3) > 0 {
			a.shared = randomWants(r)
			if i > 0 && classes[0].shared != nil && r.IntN(2) == 0 {
				a.shared = classes[0].shared
			} else if i > 0 {
				a.name = "shared-1"
			}
		}
		if a.shared == nil || r.IntN(2) == 0 {
			for range 1 + r.IntN(5)/4 {
				a.own = append(a.own, randomWants(r))
			}
		}
		classes = append(classes, a)
	}
	return classes
}

// cluster makes the API objects.
func (w *world) cluster() *cluster {
	var published []*b.SliceBuilder
	for i, k := range w.kinds {
		if i == 0 || w.kinds[i-1].pool != k.pool {
			slice := b.Slice(k.pool)
			switch {
			case k.node >= 0:
				slice.OnNode(fmt.Sprintf("n%d", k.node))
			case k.zones != "":
				slice.Modify(inZones(strings.Split(k.zones, "")...))
			default:
				slice.OnAllNodes()
			}
			published = append(published, slice)
		}
		for n := range k.all {
			published[len(published)-1].Devices(model(fmt.Sprintf("%s-%d", k.model, n), k.model))
		}
	}
	c := newCluster(w.zone, published...)
	c.cpu = slices.Clone(w.cpu)
	return c
}

func claimOf(name string, wants []want) *b.ClaimBuilder {
	var requests []*b.RequestBuilder
	for i, w := range wants {
		request := b.Request(fmt.Sprintf("r%d", i), w.alternatives[0]).Count(int64(w.count))
		if len(w.alternatives) > 1 {
			request = b.FirstAvailable(fmt.Sprintf("r%d", i), b.Request("s0", w.alternatives[0]).Count(int64(w.count)), b.Request("s1", w.alternatives[1]).Count(int64(w.count)))
		}
		requests = append(requests, request)
	}
	return b.Claim(name, requests...)
}

// groups makes the pods and claims of a gang.
func groups(name string, classes []asked) (list []group) {
	shared := make(map[string]*resourceapi.ResourceClaim)
	for i, a := range classes {
		var own []*b.ClaimBuilder
		for _, wants := range a.own {
			own = append(own, claimOf("", wants))
		}
		g := podsWith(fmt.Sprintf("%s-%d", name, i), a.pods, own...).needing(a.cpu)
		if a.shared != nil {
			if shared[a.name] == nil {
				shared[a.name] = claimOf(name+"-"+a.name, a.shared).Obj()
			}
			g = g.with(shared[a.name])
		}
		list = append(list, g)
	}
	return list
}

// holding adds the devices of a placed gang to the world's use.
func (w *world) holding(assignments []search.Assignment, classes []asked, chosen map[string][]string) {
	for _, assignment := range assignments {
		w.cpu[assignment.Node] -= classes[assignment.Class].cpu
	}
	for _, devices := range chosen {
		for _, device := range devices {
			for i := range w.kinds {
				k := &w.kinds[i]
				for n := range k.all {
					if device == fmt.Sprintf("%s/%s-%d", k.pool, k.model, n) {
						k.taken++
					}
				}
			}
		}
	}
}
