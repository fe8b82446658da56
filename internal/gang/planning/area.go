package planning

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/devices"
	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// An area is a list of nodes to try, in this order.
type area struct {
	// name is the name of the domain, "" if the area is no domain.
	name  string
	nodes []int
	// running is set if all pods of the gang that have a node are in the domain.
	running bool
	// others has the devices of other domains, which must not be taken; nil if there are none.
	others *otherDomains
	// room is the number of pods like the gang's that fit, and most an upper bound for the gang's pods that any search
	// can place.
	room, most int
	// unknown is set if that was not asked to the end: there may be room for all.
	unknown bool
}

// isDoubtful reports whether the area may have no room for so many pods: it is tried after others.
func (w *area) isDoubtful(pods int) bool { return w.unknown || w.room < pods }

// seen returns sites where the devices of other domains are in use.
func (w *area) seen(sites devices.Sites) devices.Sites {
	if w.others == nil {
		return sites
	}
	return &blockedSites{sites, w.others, make(map[string]allocator.NodeView), make(map[string]allocator.NodeView)}
}

// otherDomains has the devices that belong to other domains than the named one.
type otherDomains struct {
	key   domain.Key
	name  string
	sites devices.Sites
	// asks is that of the attempt.
	asks *int
}

// blocking returns the devices of other domains, nil if domains have no devices.
func (a *attempt) blocking(name string) *otherDomains {
	if a.gang.Wish.Key.Attribute == "" {
		return nil
	}
	return &otherDomains{a.gang.Wish.Key, name, a.classes[0].view, &a.asks}
}

// on returns the devices of a node that belong to other domains, nil if there are none.
func (o *otherDomains) on(node *v1.Node) *ledger.Use {
	use := &ledger.Use{Claim: ledger.ClaimRef{Name: "other domains"}, Allocation: &resourceapi.AllocationResult{}}
	for id, devices := range domain.Blocked(o.key, o.name, o.sites.Site(node).Pools) {
		for _, device := range devices {
			use.Allocation.Devices.Results = append(use.Allocation.Devices.Results,
				resourceapi.DeviceRequestAllocationResult{Driver: id.Driver, Pool: id.Name, Device: device})
		}
	}
	*o.asks -= len(use.Allocation.Devices.Results) / resultsAnAsk
	if len(use.Allocation.Devices.Results) == 0 {
		return nil
	}
	return use
}

// blockedSites are sites where the devices of other domains are in use.
type blockedSites struct {
	devices.Sites
	others *otherDomains
	// sites and valued hold the known sites by node.
	sites, valued map[string]allocator.NodeView
}

// Site implements devices.Sites.
func (b *blockedSites) Site(node *v1.Node) allocator.NodeView {
	return b.of(node, b.sites, b.Sites.Site)
}

// Valued implements devices.Sites.
func (b *blockedSites) Valued(node *v1.Node) allocator.NodeView {
	return b.of(node, b.valued, b.Sites.Valued)
}

func (b *blockedSites) of(node *v1.Node, known map[string]allocator.NodeView, site func(*v1.Node) allocator.NodeView) allocator.NodeView {
	s, found := known[node.Name]
	if !found {
		s = site(node)
		if use := b.others.on(node); use != nil {
			s.Usage = ledger.WhatIf(s.Usage, nil, []ledger.Use{*use})
		}
		known[node.Name] = s
	}
	return s
}
