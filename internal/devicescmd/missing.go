package devicescmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// essential are the resources without all of which there is nothing to see.
var essential = []string{"resourceslices.resource.k8s.io", "resourceclaims.resource.k8s.io"}

// sayMissing says on stderr what could not be read, and what follows from it. It fails if there is nothing to see.
func (o *options) sayMissing(missing []whatif.Missing) error {
	known := len(essential)
	var rights bool
	for _, m := range missing {
		if optional(m) {
			continue
		}
		why := m.Why
		if !strings.HasPrefix(why, "the right to ") {
			why = m.Resource + ": " + why
		} else {
			rights = true
		}
		fmt.Fprintf(o.ErrOut, "warning: %s%s\n", why, consequence(m.Resource))
		for _, resource := range essential {
			if m.Resource == resource && !strings.Contains(m.Why, "; only those of") {
				known--
			}
		}
	}
	if rights {
		fmt.Fprintln(o.ErrOut, "note: docs/kubectl-devices.md has a ClusterRole with all rights that are of use here")
	}
	if known == 0 {
		return errors.New("neither ResourceSlices nor ResourceClaims can be read, so that there is nothing to see")
	}
	return nil
}

// optional reports whether something is missing that most servers do not have.
func optional(m whatif.Missing) bool {
	return m.Resource == "devicetaintrules.resource.k8s.io" && strings.Contains(m.Why, "could not find the requested resource")
}

// consequence says what may be wrong without a resource.
func consequence(resource string) string {
	switch resource {
	case "resourceclaims.resource.k8s.io":
		return "; devices that are said to be free may be in use"
	case "resourceslices.resource.k8s.io":
		return "; devices are known only if a claim has them"
	case "devicetaintrules.resource.k8s.io":
		return "; only taints are known that drivers publish"
	case "pods":
		return "; where those run who use claims of others is not known, and not who is gone"
	case "nodes":
		return "; it is not known which nodes there are"
	case "deviceclasses.resource.k8s.io":
		return "; nothing can be said by class"
	}
	return ""
}
