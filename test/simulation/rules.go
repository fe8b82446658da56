package simulation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	internal "k8s.io/kubernetes/pkg/apis/resource"
	conversion "k8s.io/kubernetes/pkg/apis/resource/v1"
	"k8s.io/kubernetes/pkg/apis/resource/validation"
)

// validate applies kube-apiserver's own validation to a change of a claim. Other objects are not validated.
func validate(c *collection, was *object, next map[string]any, subresource string) error {
	if c.resource.Name != "resourceclaims" {
		return nil
	}
	wanted := &resourceapi.ResourceClaim{}
	if err := asTyped(next, wanted); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	before, after := &internal.ResourceClaim{}, &internal.ResourceClaim{}
	if err := intoInternal(was.typed(c.resource).(*resourceapi.ResourceClaim), before); err != nil {
		return err
	}
	if err := intoInternal(wanted, after); err != nil {
		return err
	}
	after.ResourceVersion = before.ResourceVersion
	var problems field.ErrorList
	if subresource == "status" {
		problems = validation.ValidateResourceClaimStatusUpdate(after, before)
	} else {
		problems = validation.ValidateResourceClaimUpdate(after, before)
	}
	if len(problems) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: c.resource.Group, Kind: c.resource.Kind}, before.Name, problems)
}

// intoInternal converts a claim. Both objects share memory afterwards.
func intoInternal(claim *resourceapi.ResourceClaim, into *internal.ResourceClaim) error {
	return conversion.Convert_v1_ResourceClaim_To_resource_ResourceClaim(claim, into, nil)
}

// protection is the finalizer of claims that are in use.
const protection = resourceapi.Finalizer

// record updates the managed fields of a claim as far as they are read: the manager of the allocation's results, and
// that of the finalizer.
func record(was *object, next map[string]any, manager, subresource string, now time.Time) {
	metadata := next["metadata"].(map[string]any)
	var entries []any
	if was != nil {
		entries, _ = was.metadata()["managedFields"].([]any)
	}
	entries = slices.Clone(entries)
	entry := func(subresource, fields string) map[string]any {
		e := map[string]any{"manager": manager, "operation": "Update", "apiVersion": "resource.k8s.io/v1", "time": now.UTC().Format(time.RFC3339), "fieldsType": "FieldsV1"}
		if subresource != "" {
			e["subresource"] = subresource
		}
		var owned map[string]any
		if err := json.Unmarshal([]byte(fields), &owned); err != nil {
			panic(err)
		}
		e["fieldsV1"] = owned
		return e
	}
	drop := func(subresource string) {
		entries = slices.DeleteFunc(entries, func(e any) bool {
			s, _ := e.(map[string]any)["subresource"].(string)
			return s == subresource
		})
	}
	switch subresource {
	case "status":
		before, after := was != nil && isAllocated(was.fields), isAllocated(next)
		if before != after {
			drop("status")
		}
		if after && !before {
			entries = append(entries, entry("status", `{"f:status":{"f:allocation":{".":{},"f:devices":{".":{},"f:results":{}}}}}`))
		}
	default:
		before, after := was != nil && slices.Contains(was.finalizers(), any(protection)), false
		if list, ok := metadata["finalizers"].([]any); ok {
			after = slices.Contains(list, any(protection))
		}
		if before != after {
			drop("")
		}
		if after && !before {
			entries = append(entries, entry("", fmt.Sprintf(`{"f:metadata":{"f:finalizers":{".":{},"v:\"%s\"":{}}}}`, protection)))
		}
	}
	if len(entries) == 0 {
		delete(metadata, "managedFields")
		return
	}
	metadata["managedFields"] = entries
}

// forgetDevices removes the reported status of devices when a claim loses its allocation, as kube-apiserver does.
func forgetDevices(was *object, next map[string]any) {
	status, _ := next["status"].(map[string]any)
	if !isAllocated(was.fields) || isAllocated(next) || status["devices"] == nil {
		return
	}
	status = maps.Clone(status)
	delete(status, "devices")
	next["status"] = status
}

func isAllocated(fields map[string]any) bool {
	status, _ := fields["status"].(map[string]any)
	return status["allocation"] != nil
}

// managerOf returns the field manager of a request: its parameter, or the first word of the user agent.
func managerOf(req *request, agent string) string {
	if m := first(req.query, "fieldManager"); m != "" {
		return m
	}
	name, _, _ := strings.Cut(agent, "/")
	return name
}
