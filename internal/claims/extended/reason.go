package extended

import (
	"fmt"
	"strings"
)

// InPodsWords rewords a reason in terms of the pod's extended resources. The user does not know of
// the claim, which usually does not even exist.
func (v *Variant) InPodsWords(reason string) string {
	if v.Claim == nil {
		return reason
	}
	claim := v.Claim.Namespace + "/" + v.Claim.Name
	for _, mapping := range v.Mappings {
		reason = strings.ReplaceAll(reason, fmt.Sprintf("claim %s request %s:", claim, mapping.RequestName),
			fmt.Sprintf("extended resource %s of container %s:", mapping.ResourceName, mapping.ContainerName))
	}
	reason = strings.ReplaceAll(reason, "claim "+claim, "the pod's extended resources")
	return strings.ReplaceAll(reason, claim, "the pod's extended resources")
}
