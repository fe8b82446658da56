package kubectl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	devicefacts "github.com/quartermaster-dra/quartermaster/internal/kubectl/facts"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// whyOutput says which devices a request of a claim got, and why.
type whyOutput struct {
	Claim   string   `json:"claim"`
	Request string   `json:"request"`
	Class   string   `json:"class,omitempty"`
	Devices []string `json:"devices"`
	// Taken lists the capacity that the claim consumes of devices that it shares.
	Taken []string `json:"taken,omitempty"`
	// OfNode lists what the devices take of their node (KEP-5517).
	OfNode []string `json:"ofNode,omitempty"`
	// Tolerated lists taints of the devices that the request tolerates.
	Tolerated []string `json:"tolerated,omitempty"`
	// AdminAccess is set if the devices stay available to other claims (KEP-5018).
	AdminAccess bool `json:"adminAccess,omitempty"`
	// Because lists the expressions and constraints that these devices satisfy, and the alternatives that were passed
	// over.
	Because []string `json:"because,omitempty"`
}

// why returns the devices of each request of the claims.
func why(facts *devicefacts.Facts, claims []*resourceapi.ResourceClaim) []whyOutput {
	var all []whyOutput
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		var names []string
		for _, result := range claim.Status.Allocation.Devices.Results {
			if !slices.Contains(names, result.Request) {
				names = append(names, result.Request)
			}
		}
		for _, name := range names {
			all = append(all, whyRequest(facts, claim, name))
		}
	}
	return all
}

func whyRequest(facts *devicefacts.Facts, claim *resourceapi.ResourceClaim, name string) whyOutput {
	w := whyOutput{Claim: whatif.Key(claim), Request: name}
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Request == name {
			id := result.Driver + "/" + result.Pool + "/" + result.Device
			w.Devices = append(w.Devices, id)
			w.AdminAccess = w.AdminAccess || ptr.Deref(result.AdminAccess, false)
			w.taken(facts, id, result.ConsumedCapacity)
		}
	}
	parent, _, _ := strings.Cut(name, "/")
	for i := range claim.Spec.Devices.Requests {
		if request := &claim.Spec.Devices.Requests[i]; request.Name == parent {
			w.because(facts, request, name)
		}
	}
	for i := range claim.Spec.Devices.Constraints {
		w.constrained(facts, &claim.Spec.Devices.Constraints[i], name, parent)
	}
	return w
}

// taken adds the capacity that the claim consumes of a device, what the device takes of its node, and its taints.
func (w *whyOutput) taken(facts *devicefacts.Facts, id string, consumed map[resourceapi.QualifiedName]resource.Quantity) {
	for _, name := range slices.Sorted(maps.Keys(consumed)) {
		amount := consumed[name]
		w.Taken = append(w.Taken, fmt.Sprintf("%s %s of %s", name, amount.String(), id))
	}
	for _, device := range facts.Find(id) {
		if texts := takings(&device); len(texts) > 0 {
			w.OfNode = append(w.OfNode, strings.Join(texts, ", ")+" for "+id)
		}
		for _, taint := range device.Taints {
			if taint.Effect == resourceapi.DeviceTaintEffectNone {
				continue
			}
			text := fmt.Sprintf("%s of %s", joinedBy("=", taint.Key, taint.Value)+":"+string(taint.Effect), id)
			w.Tolerated = append(w.Tolerated, text)
		}
	}
}

// because adds the terms of a request, and the alternatives before it that were passed over.
func (w *whyOutput) because(facts *devicefacts.Facts, request *resourceapi.DeviceRequest, name string) {
	var selectors []resourceapi.DeviceSelector
	var passed []string
	for r := range dra.Alternatives(request) {
		if r.Is(name) {
			w.Class, selectors = r.Class, r.Selectors
			break
		}
		passed = append(passed, fmt.Sprintf("%s (%s)", r.Alternative, r.Class))
	}
	if len(passed) > 0 {
		w.Because = append(w.Because, "alternatives that come first were not available there: "+strings.Join(passed, ", "))
	}
	if class := facts.Snapshot().Class(w.Class); class != nil {
		w.matching("the class wants", class.Spec.Selectors)
	}
	w.matching("the request wants", selectors)
}

func (w *whyOutput) matching(who string, selectors []resourceapi.DeviceSelector) {
	for _, s := range selectors {
		if s.CEL != nil {
			w.Because = append(w.Because, who+" "+s.CEL.Expression)
		}
	}
}

// constrained adds the attribute values that satisfy a constraint.
func (w *whyOutput) constrained(facts *devicefacts.Facts, c *resourceapi.DeviceConstraint, names ...string) {
	concerns := len(c.Requests) == 0 || slices.ContainsFunc(c.Requests, func(r string) bool { return slices.Contains(names, r) })
	if !concerns {
		return
	}
	switch {
	case c.MatchAttribute != nil:
		w.Because = append(w.Because, fmt.Sprintf("they have to agree on %s: %s", *c.MatchAttribute, w.values(facts, string(*c.MatchAttribute))))
	case c.DistinctAttribute != nil:
		w.Because = append(w.Because, fmt.Sprintf("they have to differ in %s: %s", *c.DistinctAttribute, w.values(facts, string(*c.DistinctAttribute))))
	}
}

// values returns the devices' values of an attribute, each once.
func (w *whyOutput) values(facts *devicefacts.Facts, name string) string {
	var values []string
	for _, id := range w.Devices {
		for _, device := range facts.Find(id) {
			if value := attribute(&device, name); value != "" && !slices.Contains(values, value) {
				values = append(values, value)
			}
		}
	}
	if len(values) == 0 {
		return "their values are no longer known"
	}
	return strings.Join(values, ", ")
}

func (o *options) printWhy(all []whyOutput) {
	for i := range all {
		w := &all[i]
		o.say("")
		class := ""
		if w.Class != "" {
			class = ", class " + w.Class
		}
		o.heading("Claim %s, request %s%s", w.Claim, w.Request, class)
		for _, device := range w.Devices {
			o.say("  %s", device)
		}
		for _, taken := range w.Taken {
			o.wrapped("    ", "a share: "+taken)
		}
		for _, taken := range w.OfNode {
			o.wrapped("    ", "of the node: "+taken)
		}
		if w.AdminAccess {
			o.wrapped("    ", "with admin access, which leaves the devices to others")
		}
		for _, taint := range w.Tolerated {
			o.wrapped("    ", "despite the taint "+taint)
		}
		for _, because := range w.Because {
			o.wrapped("    ", because)
		}
	}
}
