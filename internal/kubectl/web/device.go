package web

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl/facts"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// Details is everything about a device.
type Details struct {
	Device string `json:"device"`
	Slice  string `json:"slice"`
	// Node is empty if the device may be for several nodes.
	Node       string  `json:"node,omitempty"`
	Problem    string  `json:"problem,omitempty"`
	Attributes []Named `json:"attributes"`
	Capacity   []Named `json:"capacity"`
	// Counters are the counters that the device consumes, as counter set/counter.
	Counters []Named `json:"counters"`
	// OfNode are resources of its node that the device stands for, or that its users need (KEP-5517).
	OfNode  []Named  `json:"ofNode"`
	Taints  []string `json:"taints"`
	Holders []Holder `json:"holders"`
}

// Named is a name with a value.
type Named struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Left is the amount that other devices leave, "" if no device has taken any or the amount is unknown.
	Left string `json:"left,omitempty"`
}

// Holder is a claim that uses a device.
type Holder struct {
	Claim string `json:"claim"`
	// Pods are the pods that the claim is reserved for.
	Pods []string `json:"pods"`
	// Share is the consumed capacity, empty if the claim holds the whole device.
	Share []Named `json:"share,omitempty"`
	// Since is the time of the allocation in Unix seconds; 0 if unknown.
	Since int64 `json:"since,omitempty"`
}

// device returns the details of a device (id: driver/pool/name).
func (s *server) device(_ context.Context, r *http.Request) (any, error) {
	world, err := s.world()
	if err != nil {
		return nil, err
	}
	id := r.URL.Query().Get("id")
	pool, device := find(world, id)
	if device == nil {
		return nil, refuse(http.StatusNotFound, "there is no device "+id+" any more")
	}
	usage := ledger.Of(world.Usage(), pool)
	use := usage.Device(device.Name)
	d := &Details{
		Device: id, Slice: device.Slice.Name, Node: nodeOf(device), Taints: []string{}, OfNode: []Named{}, Holders: []Holder{},
		Attributes: []Named{}, Counters: consumed(pool, usage, device.Name), Capacity: capacities(device, use.Shares),
	}
	if pool.State != inventory.Complete {
		d.Problem = "the pool is " + strings.ToLower(pool.State.String()) + ": " + pool.Reason
	}
	for _, name := range slices.Sorted(maps.Keys(device.Attributes)) {
		d.Attributes = append(d.Attributes, Named{Name: string(name), Value: facts.AttributeText(device.Attributes[name], ", ")})
	}
	for _, taking := range facts.OfNode(device.Device) {
		d.OfNode = append(d.OfNode, Named{Name: string(taking.Resource), Value: taking.Amount})
	}
	for i := range device.Taints {
		taint := &device.Taints[i]
		d.Taints = append(d.Taints, taint.Key+"="+taint.Value+":"+string(taint.Effect))
	}
	for _, ref := range use.Holders {
		d.Holders = append(d.Holders, holderOf(world, ref, nil))
	}
	for i := range use.Shares {
		d.Holders = append(d.Holders, holderOf(world, use.Shares[i].Holder, use.Shares[i].Consumed))
	}
	return d, nil
}

// find looks up a device by driver/pool/name. Names of pools may have slashes; names of drivers and devices have
// none.
func find(world *whatif.Snapshot, id string) (*inventory.NodePool, *inventory.Device) {
	driver, rest, ok := strings.Cut(id, "/")
	slash := strings.LastIndex(rest, "/")
	if !ok || slash < 0 {
		return nil, nil
	}
	pool := world.Pool(inventory.PoolID{Driver: driver, Name: rest[:slash]})
	if pool == nil {
		return nil, nil
	}
	return pool, pool.Device(rest[slash+1:])
}

func capacities(device *inventory.Device, shares []ledger.Share) []Named {
	all := []Named{}
	for _, name := range slices.Sorted(maps.Keys(device.Capacity)) {
		published := device.Capacity[name].Value
		named := Named{Name: string(name), Value: published.String()}
		if left := published; len(shares) > 0 {
			for i := range shares {
				if consumed, ok := shares[i].Consumed[name]; ok {
					left = quantity.Difference(left, consumed)
				}
			}
			named.Left = left.String()
		}
		all = append(all, named)
	}
	return all
}

// consumed lists the counters that a device draws from, and what is left of each.
func consumed(pool *inventory.NodePool, usage *ledger.PoolUsage, device string) []Named {
	all := []Named{}
	if pool.Counters == nil {
		return all
	}
	position, ok := pool.Position(device)
	if !ok {
		return all
	}
	left := usage.Remaining(pool)
	for _, draw := range pool.Counters.Draws(position) {
		for number, taken := range draw.All() {
			format := pool.Counters.Formats[number]
			quantity := taken.Quantity(format)
			named := Named{Name: pool.Counters.SetOf(number) + "/" + pool.Counters.Names[number], Value: quantity.String()}
			if number < len(left.Amounts) {
				remaining := left.Amounts[number].Quantity(format)
				named.Left = remaining.String()
			}
			all = append(all, named)
		}
	}
	return all
}

func holderOf(world *whatif.Snapshot, ref ledger.ClaimRef, share map[resourceapi.QualifiedName]resource.Quantity) Holder {
	h := Holder{Claim: ref.String(), Pods: []string{}}
	for _, name := range slices.Sorted(maps.Keys(share)) {
		quantity := share[name]
		h.Share = append(h.Share, Named{Name: string(name), Value: quantity.String()})
	}
	claim := world.Claim(ref.Namespace, ref.Name)
	if claim == nil {
		return h
	}
	for _, consumer := range claim.Status.ReservedFor {
		name := consumer.Name
		if consumer.Resource != "pods" {
			name = consumer.Resource + " " + name
		}
		h.Pods = append(h.Pods, claim.Namespace+"/"+name)
	}
	if allocation := claim.Status.Allocation; allocation != nil && allocation.AllocationTimestamp != nil {
		h.Since = allocation.AllocationTimestamp.Truncate(time.Second).Unix()
	}
	return h
}
