package api

import (
	"bytes"
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// metadataPatch is a merge patch that adds labels and annotations to an object at a given version. It is the same in
// all versions of the API.
type metadataPatch struct {
	Metadata struct {
		ResourceVersion string            `json:"resourceVersion"`
		Annotations     map[string]string `json:"annotations"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
}

// asMetadataPatch returns a patch that changes only metadata, false for any other patch.
func asMetadataPatch(kind types.PatchType, data []byte, subresources []string) (*metadataPatch, bool) {
	patch, decoder := &metadataPatch{}, json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if kind != types.MergePatchType || len(subresources) > 0 || decoder.Decode(patch) != nil {
		return nil, false
	}
	added := len(patch.Metadata.Annotations) + len(patch.Metadata.Labels)
	return patch, added > 0 && patch.Metadata.ResourceVersion != ""
}

// patchMetadata performs a patch as an update, in the types of the older version: that version gets no new fields. (A
// server that patches an older claim reformats its opaque parameters and then refuses the result, see exactClaims.)
func patchMetadata[O any](ctx context.Context, old interface {
	Get(context.Context, string, metav1.GetOptions) (*O, error)
	Update(context.Context, *O, metav1.UpdateOptions) (*O, error)
}, name string, patch *metadataPatch, o metav1.PatchOptions) (*O, error) {
	found, err := old.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	object := any(found).(metav1.Object)
	object.SetResourceVersion(patch.Metadata.ResourceVersion)
	object.SetAnnotations(with(object.GetAnnotations(), patch.Metadata.Annotations))
	object.SetLabels(with(object.GetLabels(), patch.Metadata.Labels))
	return old.Update(ctx, found, metav1.UpdateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation})
}

// with adds entries to a map and returns it.
func with(values, added map[string]string) map[string]string {
	for key, value := range added {
		if values == nil {
			values = make(map[string]string)
		}
		values[key] = value
	}
	return values
}
