package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// podSources is a codec for JSON that supports the pods' references to claims up to 1.30:
// spec.resourceClaims[].source, which the types of 1.31 and later lack. Decoding moves the references to the current
// fields; encoding writes them as the server expects.
type podSources struct {
	runtime.NegotiatedSerializer
	server *oldServer
}

// SupportedMediaTypes implements runtime.NegotiatedSerializer: JSON only.
func (p podSources) SupportedMediaTypes() []runtime.SerializerInfo {
	var supported []runtime.SerializerInfo
	for _, info := range p.NegotiatedSerializer.SupportedMediaTypes() {
		if info.MediaType == runtime.ContentTypeJSON {
			supported = append(supported, info)
		}
	}
	return supported
}

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (p podSources) DecoderToVersion(serializer runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	return podSourceDecoder{p.NegotiatedSerializer.DecoderToVersion(serializer, version), p.server}
}

// EncoderForVersion implements runtime.NegotiatedSerializer.
func (p podSources) EncoderForVersion(serializer runtime.Encoder, version runtime.GroupVersioner) runtime.Encoder {
	return podSourceEncoder{p.NegotiatedSerializer.EncoderForVersion(serializer, version), p.server}
}

type podSourceDecoder struct {
	runtime.Decoder
	server *oldServer
}

// oldPod has the fields of old pods that the current types lack.
type oldPod struct {
	Spec struct {
		ResourceClaims []struct {
			Source struct {
				ResourceClaimName         *string `json:"resourceClaimName"`
				ResourceClaimTemplateName *string `json:"resourceClaimTemplateName"`
			} `json:"source"`
		} `json:"resourceClaims"`
	} `json:"spec"`
}

// Decode implements runtime.Decoder.
func (d podSourceDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	object, kind, err := d.Decoder.Decode(data, defaults, into)
	if err != nil {
		return object, kind, err
	}
	switch object := object.(type) {
	case *v1.Pod:
		if !lacksSource(object) {
			break
		}
		var old oldPod
		if err := json.Unmarshal(data, &old); err != nil {
			return nil, kind, fmt.Errorf("read which claims pod %s/%s uses (spec.resourceClaims[].source): %w", object.Namespace, object.Name, err)
		}
		d.carryOver(&old, object)
	case *v1.PodList:
		if err := d.decodeList(data, object); err != nil {
			return nil, kind, err
		}
	}
	return object, kind, nil
}

func (d podSourceDecoder) decodeList(data []byte, list *v1.PodList) error {
	lacking := false
	for i := range list.Items {
		lacking = lacking || lacksSource(&list.Items[i])
	}
	if !lacking {
		return nil
	}
	var old struct {
		Items []oldPod `json:"items"`
	}
	if err := json.Unmarshal(data, &old); err != nil {
		return fmt.Errorf("read which claims the pods of a list use (spec.resourceClaims[].source): %w", err)
	}
	if len(old.Items) != len(list.Items) {
		return fmt.Errorf("read which claims the pods of a list use (spec.resourceClaims[].source): found %d pods, but %d when looking for the rest of their fields; this is a bug", len(old.Items), len(list.Items))
	}
	for i := range list.Items {
		d.carryOver(&old.Items[i], &list.Items[i])
	}
	return nil
}

// lacksSource reports whether a pod has references to claims with only a name. Pods of 1.31 and later have none.
func lacksSource(pod *v1.Pod) bool {
	for i := range pod.Spec.ResourceClaims {
		if c := &pod.Spec.ResourceClaims[i]; c.ResourceClaimName == nil && c.ResourceClaimTemplateName == nil {
			return true
		}
	}
	return false
}

func (d podSourceDecoder) carryOver(old *oldPod, pod *v1.Pod) {
	for i := range pod.Spec.ResourceClaims {
		claim := &pod.Spec.ResourceClaims[i]
		if i >= len(old.Spec.ResourceClaims) || claim.ResourceClaimName != nil || claim.ResourceClaimTemplateName != nil {
			continue
		}
		source := &old.Spec.ResourceClaims[i].Source
		claim.ResourceClaimName, claim.ResourceClaimTemplateName = source.ResourceClaimName, source.ResourceClaimTemplateName
	}
	if d.server.leavesUnrecorded() {
		recordGenerated(pod)
	}
}

// recordGenerated adds the names of generated claims to the pod's status, which servers before 1.28 do not record.
func recordGenerated(pod *v1.Pod) {
	recorded := make(map[string]bool, len(pod.Status.ResourceClaimStatuses))
	for i := range pod.Status.ResourceClaimStatuses {
		recorded[pod.Status.ResourceClaimStatuses[i].Name] = true
	}
	for i := range pod.Spec.ResourceClaims {
		claim := &pod.Spec.ResourceClaims[i]
		if claim.ResourceClaimTemplateName == nil || recorded[claim.Name] {
			continue
		}
		name := pod.Name + "-" + claim.Name
		pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, v1.PodResourceClaimStatus{Name: claim.Name, ResourceClaimName: &name})
	}
}

type podSourceEncoder struct {
	runtime.Encoder
	server *oldServer
}

// Encode implements runtime.Encoder.
func (e podSourceEncoder) Encode(object runtime.Object, w io.Writer) error {
	pod, ok := object.(*v1.Pod)
	if !ok || len(pod.Spec.ResourceClaims) == 0 {
		return e.Encoder.Encode(object, w)
	}
	encoded, err := runtime.Encode(e.Encoder, object)
	if err != nil {
		return err
	}
	var content map[string]any
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	if err := decoder.Decode(&content); err != nil {
		return fmt.Errorf("write which claims pod %s/%s uses (spec.resourceClaims[].source): %w", pod.Namespace, pod.Name, err)
	}
	spec, _ := content["spec"].(map[string]any)
	claims, _ := spec["resourceClaims"].([]any)
	for i := range claims {
		if claim, ok := claims[i].(map[string]any); ok {
			nestSource(claim, e.server.isOld())
		}
	}
	return json.NewEncoder(w).Encode(content)
}

// nestSource copies the reference to a claim to the field of servers up to 1.30, and removes it from the current
// field if remove is set.
func nestSource(claim map[string]any, remove bool) {
	source := make(map[string]any, 1)
	for _, field := range []string{"resourceClaimName", "resourceClaimTemplateName"} {
		name, found := claim[field]
		if !found {
			continue
		}
		source[field] = name
		if remove {
			delete(claim, field)
		}
	}
	claim["source"] = source
}
