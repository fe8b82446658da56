package files

import (
	"regexp"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

func set(names ...string) map[string]bool {
	result := make(map[string]bool, len(names))
	for _, name := range names {
		result[name] = true
	}
	return result
}

var (
	// left lists fields that Replace removes. Messages and the reports of drivers (AllocatedDeviceStatus) may contain
	// any name.
	left = set("managedFields", "generateName", "selfLink", "message", "data", "networkData", "imagePullSecrets")

	// subtrees lists fields that are kept with all their contents: attributes and amounts.
	subtrees = set("attributes", "capacity", "consumedCapacity", "counters", "requestPolicy")

	// kept lists fields whose texts the API or a driver defines: kinds, enumerations, expressions, keys.
	kept = set("apiVersion", "apiGroup", "kind", "resource", "resourceVersion", "driver", "expression", "effect", "operator", "key",
		"matchAttribute", "distinctAttribute", "phase", "type", "status", "allocationMode", "finalizers", "reason",
		"extendedResourceName", "schedulerName", "preemptionPolicy", "restartPolicy", "topologyKey", "whenUnsatisfiable",
		"nodeAffinityPolicy", "nodeTaintsPolicy", "matchLabelKeys", "mismatchLabelKeys", "compatibilityGroups", "bindingConditions",
		"bindingFailureConditions", "skipNodeOperations", "protocol", "dnsPolicy", "terminationMessagePolicy")

	// partly lists fields in which only words that are the name of an object are replaced.
	partly = set("device", "counterSet", "request", "requests", "requestName", "containerName")
	// inside lists arrays whose elements have names within an object.
	inside = set("devices", "sharedCounters", "requests", "firstAvailable", "containers", "initContainers", "ports", "resourceClaims",
		"resourceClaimStatuses", "claims")
)

var numeral = regexp.MustCompile(`^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+|m|[kMGTPE]|[KMGTPE]i)?$`)

// isHarmless reports whether a text reveals nothing by itself: a number, an amount, a boolean, or a timestamp.
func isHarmless(text string) bool {
	if text == "" || text == "true" || text == "false" || numeral.MatchString(text) {
		return true
	}
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}

// annotations returns the annotations to keep: the pod's name for a claim that was made for it.
func (r *replacing) annotations(value any) map[string]any {
	all, _ := value.(map[string]any)
	called, is := all[resourceapi.PodResourceClaimAnnotation].(string)
	if !is {
		return nil
	}
	return map[string]any{resourceapi.PodResourceClaimAnnotation: r.within(called)}
}

// resource replaces the class in the name of an implicit extended resource (KEP-5004).
func (r *replacing) resource(name string) string {
	if class, implicit := strings.CutPrefix(name, resourceapi.ResourceDeviceClassPrefix); implicit {
		return resourceapi.ResourceDeviceClassPrefix + r.replace(class, r.names)
	}
	return name
}
