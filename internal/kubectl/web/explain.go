package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/kubectl/facts"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// Reasons says why a pod has no node, and which devices are in its way.
type Reasons struct {
	*facts.Explanation `json:",inline"`
	// Blocks are the devices that the pod could use if no claim held them, by tile as in Choice. Holders are the
	// claims that hold them.
	Blocks  map[string]string `json:"blocks"`
	Holders []string          `json:"holders"`
}

// holdersAtMost bounds the blocking claims that are named.
const holdersAtMost = 200

// explain returns the reasons why a pod (pod: namespace/name) has no node.
func (s *server) explain(ctx context.Context, r *http.Request) (any, error) {
	world, err := s.world()
	if err != nil {
		return nil, err
	}
	namespace, name, _ := strings.Cut(r.URL.Query().Get("pod"), "/")
	pod := world.Pod(namespace, name)
	if pod == nil {
		return nil, refuse(http.StatusNotFound, fmt.Sprintf("there is no pod %s/%s any more", namespace, name))
	}
	return reasons(ctx, world, pod)
}

func reasons(ctx context.Context, world *whatif.Snapshot, pod *v1.Pod) (*Reasons, error) {
	found, err := world.Explain(ctx, pod)
	if err != nil {
		return nil, err
	}
	result := &Reasons{Explanation: facts.Explained(found), Blocks: make(map[string]string), Holders: []string{}}
	return result, result.addBlocks(ctx, world, pod, elsewhere(found))
}

// elsewhere returns the nodes whose devices do not matter: nodes on which the pod fits, and nodes that it cannot use
// whichever devices are free there.
func elsewhere(found *whatif.Explanation) map[string]bool {
	nodes := make(map[string]bool)
	for _, node := range found.Fits {
		nodes[node] = true
	}
	for i := range found.Groups {
		if found.Groups[i].Kind == whatif.Unwanted || found.Groups[i].Kind == whatif.Resources {
			for _, node := range found.Groups[i].Nodes {
				nodes[node] = true
			}
		}
	}
	return nodes
}

// addBlocks finds the devices that match a request of the pod and are in use, except on the nodes in elsewhere.
func (r *Reasons) addBlocks(ctx context.Context, world *whatif.Snapshot, pod *v1.Pod, elsewhere map[string]bool) error {
	var finders []*finder
	for _, set := range wanted(world, pod) {
		finders = append(finders, newFinder(world, set))
	}
	drawing := newDrawing(world, nil)
	seen := make(map[string]bool)
	for _, tile := range sheets(world) {
		if !tile.shared && elsewhere[tile.name] {
			continue
		}
		marks := []byte(strings.Repeat("0", len(tile.devices)))
		any := false
		for at, p := range tile.devices {
			usage := ledger.Of(world.Usage(), p.pool)
			use := usage.Device(p.pool.Devices[p.device].Name)
			if drawing.state(p, usage, use) == Free && !tainted(&p.pool.Devices[p.device]) {
				continue
			}
			matches, err := matchesAny(ctx, finders, p)
			if err != nil {
				return err
			}
			if !matches {
				continue
			}
			marks[at], any = '1', true
			for _, claim := range holders(use) {
				seen[claim] = true
			}
		}
		if any {
			r.Blocks[tile.name] = string(marks)
		}
	}
	for claim := range seen {
		r.Holders = append(r.Holders, claim)
	}
	slices.Sort(r.Holders)
	r.Holders = r.Holders[:min(len(r.Holders), holdersAtMost)]
	return nil
}

func tainted(device *inventory.Device) bool {
	return slices.ContainsFunc(device.Taints, inventory.KeepsAway)
}

func matchesAny(ctx context.Context, finders []*finder, p deviceOfPool) (bool, error) {
	for _, f := range finders {
		selection, err := f.of(ctx, p.pool)
		if err != nil {
			return false, err
		}
		if selection.Matches.Has(p.device) {
			return true, nil
		}
	}
	return false, nil
}

// wanted returns the selectors of the pod's requests without allocation.
func wanted(world *whatif.Snapshot, pod *v1.Pod) []selector.Set {
	var sets []selector.Set
	for _, claim := range world.OpenClaims(pod) {
		for request := range dra.Requests(claim) {
			sets = appendSet(sets, world, request.Class, request.Selectors)
		}
	}
	for _, class := range world.Classes() {
		if extended.AsksFor(pod, class) {
			sets = appendSet(sets, world, class.Name, nil)
		}
	}
	return sets
}

func appendSet(sets []selector.Set, world *whatif.Snapshot, class string, selectors []resourceapi.DeviceSelector) []selector.Set {
	if of := world.Class(class); of != nil {
		sets = append(sets, selector.NewSet(of, &resourceapi.ResourceClaim{}, "", selectors))
	}
	return sets
}
