package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// manifest reads documents in YAML or JSON: one pod, and other objects.
func manifest(text string) (*v1.Pod, whatif.Objects, error) {
	var pod *v1.Pod
	var more whatif.Objects
	reader := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		var raw json.RawMessage
		if err := reader.Decode(&raw); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, more, fmt.Errorf("the manifest is neither YAML nor JSON: %w", err)
		}
		if len(raw) == 0 || string(raw) == "null" {
			continue
		}
		one, err := object(raw, &more)
		if err != nil {
			return nil, more, err
		}
		if one != nil && pod != nil {
			return nil, more, errors.New("the manifest has several pods; ask about one")
		}
		if one != nil {
			pod = one
		}
	}
	if pod == nil {
		return nil, more, errors.New("the manifest has no pod; paste one with kind: Pod")
	}
	return pod, more, nil
}

// object adds an object to more, or returns it if it is a pod.
func object(raw json.RawMessage, more *whatif.Objects) (*v1.Pod, error) {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(raw, &kind); err != nil {
		return nil, fmt.Errorf("the manifest has something that is no object: %w", err)
	}
	var into any
	pod, claim, template, class := new(v1.Pod), new(resourceapi.ResourceClaim), new(resourceapi.ResourceClaimTemplate), new(resourceapi.DeviceClass)
	switch kind.Kind {
	case "Pod":
		into = pod
	case "ResourceClaim":
		into = claim
	case "ResourceClaimTemplate":
		into = template
	case "DeviceClass":
		into = class
	default:
		return nil, fmt.Errorf("the manifest has an object of kind %q; only Pod, ResourceClaim, ResourceClaimTemplate and DeviceClass are understood", kind.Kind)
	}
	if into != pod && kind.APIVersion != resourceapi.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("%s is of %q; only %s is understood here", kind.Kind, kind.APIVersion, resourceapi.SchemeGroupVersion)
	}
	if err := quantity.CheckJSON(raw, reflect.TypeOf(into), quantity.IsEndless); err != nil {
		return nil, fmt.Errorf("%s in the manifest: %w", kind.Kind, err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return nil, fmt.Errorf("%s in the manifest: %w", kind.Kind, err)
	}
	switch into {
	case pod:
		return pod, nil
	case claim:
		claim.Namespace, claim.Status = inDefault(claim.Namespace), resourceapi.ResourceClaimStatus{}
		claim.UID = types.UID("planned/" + whatif.Key(claim))
		more.Claims = append(more.Claims, claim)
	case template:
		template.Namespace = inDefault(template.Namespace)
		more.Templates = append(more.Templates, template)
	case class:
		more.Classes = append(more.Classes, class)
	}
	return nil, nil
}

func inDefault(namespace string) string {
	if namespace == "" {
		return v1.NamespaceDefault
	}
	return namespace
}
