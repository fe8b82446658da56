package kubectl

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	devicefacts "github.com/quartermaster-dra/quartermaster/internal/kubectl/facts"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// attributeInExpression matches attributes and capacities in CEL expressions: device.attributes["domain"].name.
var attributeInExpression = regexp.MustCompile(`device\.(?:attributes|capacity)\["([^"]+)"\](?:\.([A-Za-z_][A-Za-z0-9_]*)|\["([^"]+)"\])`)

// ruledOut lists, for requests that no device of the node matches, the selectors and the existing values.
func ruledOut(facts *devicefacts.Facts, pod *v1.Pod, full *allocator.Explanation) []string {
	if full == nil {
		return nil
	}
	var all []string
	for i := range full.Claims {
		for j := range full.Claims[i].Requests {
			r := &full.Claims[i].Requests[j]
			if r.Published == 0 || r.Matching > 0 {
				continue
			}
			selectors, who := selectorsOf(facts.Snapshot(), pod, full.Claims[i].Claim, r.Request), "request "+r.Request+" wants "
			if r.OfClass == 0 {
				selectors, who = nil, "device class "+r.Class+" wants "
				if class := facts.Snapshot().Class(r.Class); class != nil {
					selectors = class.Spec.Selectors
				}
			}
			for _, s := range selectors {
				if s.CEL == nil {
					continue
				}
				text := who + s.CEL.Expression
				for _, found := range valuesOf(facts, s.CEL.Expression) {
					text += "; " + found
				}
				if !slices.Contains(all, text) {
					all = append(all, text)
				}
			}
		}
	}
	return all
}

// selectorsOf returns the selectors of a request of a claim without allocation.
func selectorsOf(s *whatif.Snapshot, pod *v1.Pod, claim, request string) []resourceapi.DeviceSelector {
	for _, open := range s.OpenClaims(pod) {
		if whatif.Key(open) != claim {
			continue
		}
		for r := range dra.Requests(open) {
			if r.Is(request) {
				return r.Selectors
			}
		}
	}
	return nil
}

// valuesOf lists the values that the cluster's devices have for the attributes in an expression.
func valuesOf(facts *devicefacts.Facts, expression string) []string {
	var texts []string
	devices := facts.Devices()
	seen := make(map[string]bool)
	for _, match := range attributeInExpression.FindAllStringSubmatch(expression, -1) {
		name := match[1] + "/" + match[2] + match[3]
		if seen[name] {
			continue
		}
		seen[name] = true
		count := make(map[string]int)
		for i := range devices {
			if value := attribute(&devices[i], name); value != "" {
				count[value]++
			}
		}
		if len(count) == 0 {
			texts = append(texts, "no device has "+name)
			continue
		}
		var values []string
		for _, value := range slices.Sorted(maps.Keys(count)) {
			values = append(values, fmt.Sprintf("%s (%s)", value, plural(count[value], "device")))
		}
		texts = append(texts, name+" is "+few(values))
	}
	return texts
}
