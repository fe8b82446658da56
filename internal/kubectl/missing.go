package kubectl

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl/screen"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// essential lists resources; at least one of them must be readable.
var essential = []string{"resourceslices.resource.k8s.io", "resourceclaims.resource.k8s.io"}

// sayMissing prints on stderr one line about missing rights, and other read errors. It fails if nothing can be shown.
func (o *options) sayMissing(missing []whatif.Missing) error {
	if why := unreachable(missing); why != "" {
		return errors.New(why)
	}
	o.warnMissing(missing)
	unknown := 0
	for i := range missing {
		if slices.Contains(essential, missing[i].Resource) && missing[i].Namespace == "" {
			unknown++
		}
	}
	if unknown == len(essential) {
		return errors.New("you may read neither ResourceSlices nor ResourceClaims; an administrator can give you the rights with: kubectl devices clusterrole")
	}
	return nil
}

func (o *options) warnMissing(missing []whatif.Missing) {
	var nothing, within, consequences []string
	namespace := ""
	for i := range missing {
		m := &missing[i]
		name, _, _ := strings.Cut(m.Resource, ".")
		switch {
		case !m.Forbidden:
			fmt.Fprintf(o.ErrOut, "warning: %s\n", screen.CleanLine(joinedBy("; ", m.Resource+": "+m.Why, consequence(m.Resource))))
			continue
		case m.Namespace == "":
			nothing = append(nothing, name)
		default:
			within, namespace = append(within, name), m.Namespace
		}
		if text := consequence(m.Resource); text != "" {
			consequences = append(consequences, text)
		}
	}
	var rights []string
	if len(nothing) > 0 {
		rights = append(rights, "you may not list "+strings.Join(nothing, ", "))
	}
	if len(within) > 0 {
		rights = append(rights, "you may list "+strings.Join(within, ", ")+" only in namespace "+namespace)
	}
	if len(rights) == 0 {
		return
	}
	hint := "an administrator can give you the rights with: kubectl devices clusterrole"
	text := strings.Join(rights, ", and ")
	if o.output == "wide" {
		text = joinedBy("; ", append([]string{text}, consequences...)...)
	}
	fmt.Fprintf(o.ErrOut, "warning: %s: what depends on that is not known (%s)\n", screen.CleanLine(text), hint)
}

// unreachable says why nothing could be read, unless the reason is missing rights; "" if something could be read.
func unreachable(missing []whatif.Missing) string {
	why := make(map[string]string)
	for _, m := range missing {
		if m.Forbidden {
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

// notServed is part of the API server's message about a resource that it does not serve.
const notServed = "could not find the requested resource"

// consequence describes possible errors in the output without a resource.
func consequence(resource string) string {
	switch resource {
	case "resourceclaims.resource.k8s.io":
		return "devices shown as free may be in use"
	case "resourceslices.resource.k8s.io":
		return "devices are known only if a claim has them"
	case "devicetaintrules.resource.k8s.io":
		return "only taints are known that drivers publish"
	case "pods":
		return "the nodes of some pods are not known, and some of them may have ended"
	case "nodes":
		return "the nodes are not known"
	case "deviceclasses.resource.k8s.io":
		return "nothing is known by class"
	}
	return ""
}

// devicesUnknown says that devices may exist although none could be read.
func (o *options) devicesUnknown() error {
	o.say("Which devices there are is not known: resourceslices could not be read.")
	return statusError{ExitCannotTell}
}
