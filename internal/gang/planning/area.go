package planning

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// An area is a list of nodes to try, in this order.
type area struct {
	// name is the name of the domain, "" if the area is no domain.
	name  string
	nodes []int
	// running is set if all pods of the gang that have a node are in the domain.
	running bool
	// blocked returns the devices of a node that must not be taken, nil for none. It may be nil itself.
	blocked func(*v1.Node) *ledger.Use
	// room is the number of pods like the gang's that fit, and most an upper bound for the gang's pods that any search
	// can place.
	room, most int
}

// seen returns a site function that treats the blocked devices as used.
func (w *area) seen(site func(*v1.Node) allocator.Site) func(*v1.Node) allocator.Site {
	if w.blocked == nil {
		return site
	}
	known := make(map[string]allocator.Site)
	return func(node *v1.Node) allocator.Site {
		s, found := known[node.Name]
		if !found {
			s = site(node)
			if use := w.blocked(node); use != nil {
				s.Usage = ledger.WhatIf(s.Usage, nil, []ledger.Use{*use})
			}
			known[node.Name] = s
		}
		return s
	}
}

// blocking returns a function for the devices of a node that belong to other domains.
func blocking(key domain.Key, name string, pools func(*v1.Node) []*inventory.NodePool) func(*v1.Node) *ledger.Use {
	if key.Attribute == "" {
		return nil
	}
	return func(node *v1.Node) *ledger.Use {
		use := &ledger.Use{Claim: ledger.ClaimRef{Name: "other domains"}, Allocation: &resourceapi.AllocationResult{}}
		for id, devices := range domain.Blocked(key, name, pools(node)) {
			for _, device := range devices {
				use.Allocation.Devices.Results = append(use.Allocation.Devices.Results,
					resourceapi.DeviceRequestAllocationResult{Driver: id.Driver, Pool: id.Name, Device: device})
			}
		}
		if len(use.Allocation.Devices.Results) == 0 {
			return nil
		}
		return use
	}
}
