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
	if why := unreachable(missing); why != "" {
		return errors.New(why)
	}
	known := len(essential)
	var rights bool
	for _, m := range missing {
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

// unreachable says why nothing at all can be read, for other reasons than rights; "" if anything can.
func unreachable(missing []whatif.Missing) string {
	why := make(map[string]string)
	for _, m := range missing {
		if strings.HasPrefix(m.Why, "the right to ") {
			return ""
		}
		why[m.Resource] = m.Why
	}
	claims := why["resourceclaims.resource.k8s.io"]
	switch {
	case strings.Contains(claims, notServed):
		return "the cluster has no resource.k8s.io API, which is on by default since Kubernetes 1.34: " + claims
	case claims == "" || why["resourceslices.resource.k8s.io"] == "":
		return ""
	}
	return "the cluster cannot be read: " + claims
}

// notServed is what API servers say of resources that they do not have.
const notServed = "could not find the requested resource"

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
