package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/gentype"

	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha3"
)

// exactClaims is a client for claims of v1alpha3 that writes opaque parameters byte for byte as they are stored. The
// server stores their bytes, treats a claim as changed if they differ, and then refuses the write. In JSON it shows
// them without white space and with <, > and & escaped, so parameters from a client that formats them differently
// cannot be sent back. Protobuf has the bytes, but v1alpha3 has no protobuf types any more. So after a refusal, the
// claim is read as protobuf with the types of v1beta1, which continues the field numbers of v1alpha3. The retry sends
// JSON that contains the stored text of the parameters, which the server accepts.
type exactClaims struct {
	*gentype.ClientWithList[*v1alpha3.ResourceClaim, *v1alpha.List[v1alpha3.ResourceClaim]]
	alpha     alpha
	namespace string
}

func newExactClaims(a alpha, namespace string) exactClaims {
	return exactClaims{clientOf[v1alpha3.ResourceClaim](a, claimResource, namespace), a, namespace}
}

func (c exactClaims) Update(ctx context.Context, claim *v1alpha3.ResourceClaim, o metav1.UpdateOptions) (*v1alpha3.ResourceClaim, error) {
	updated, err := c.ClientWithList.Update(ctx, claim, o)
	if apierrors.IsInvalid(err) {
		return c.updateExactly(ctx, claim, o, err)
	}
	return updated, err
}

func (c exactClaims) UpdateStatus(ctx context.Context, claim *v1alpha3.ResourceClaim, o metav1.UpdateOptions) (*v1alpha3.ResourceClaim, error) {
	updated, err := c.ClientWithList.UpdateStatus(ctx, claim, o)
	if apierrors.IsInvalid(err) {
		return c.updateExactly(ctx, claim, o, err, "status")
	}
	return updated, err
}

// updateExactly repeats a refused write with the stored text of the parameters, if the text differs.
func (c exactClaims) updateExactly(ctx context.Context, claim *v1alpha3.ResourceClaim, o metav1.UpdateOptions, refused error, subresources ...string) (*v1alpha3.ResourceClaim, error) {
	stored, err := c.stored(ctx, claim.Name)
	if err != nil {
		return nil, fmt.Errorf("%w; whether that is because of the text of its parameters cannot be found out: %v", refused, err)
	}
	if stored.ResourceVersion != claim.ResourceVersion {
		return nil, apierrors.NewConflict(resourceapi.Resource(claimResource), claim.Name, errors.New("it has changed since it was read; read it again"))
	}
	body, differs, err := withStoredParameters(claim, stored)
	if err != nil || !differs {
		return nil, refused
	}
	updated := &v1alpha3.ResourceClaim{}
	err = c.alpha.client.Put().Namespace(c.namespace).Resource(claimResource).Name(claim.Name).SubResource(subresources...).
		VersionedParams(&o, c.alpha.parameters).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx).Into(updated)
	if err != nil {
		return nil, err
	}
	return updated, nil
}

// protobufPrefix is the prefix of protobuf from API servers.
var protobufPrefix = []byte("k8s\x00")

// stored reads a claim with its stored bytes. Fields that v1beta1 lacks are missing.
func (c exactClaims) stored(ctx context.Context, name string) (*resourcev1beta1.ResourceClaim, error) {
	raw, err := c.alpha.client.Get().Namespace(c.namespace).Resource(claimResource).Name(name).
		SetHeader("Accept", runtime.ContentTypeProtobuf).Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("read claim %s/%s as protobuf: %w", c.namespace, name, err)
	}
	message, found := bytes.CutPrefix(raw, protobufPrefix)
	if !found {
		return nil, fmt.Errorf("read claim %s/%s as protobuf: the server has sent something else", c.namespace, name)
	}
	var envelope runtime.Unknown
	claim := &resourcev1beta1.ResourceClaim{}
	if err = envelope.Unmarshal(message); err == nil {
		err = claim.Unmarshal(envelope.Raw)
	}
	if err != nil {
		return nil, fmt.Errorf("read claim %s/%s as protobuf: %w", c.namespace, name, err)
	}
	return claim, nil
}

// withStoredParameters returns a claim as JSON, with the stored text of parameters that are equal to the stored ones,
// and whether any text differs.
func withStoredParameters(claim *v1alpha3.ResourceClaim, stored *resourcev1beta1.ResourceClaim) (body []byte, differs bool, err error) {
	sent := *claim
	sent.APIVersion, sent.Kind = V1alpha3.groupVersion(), "ResourceClaim"
	// Encoding would change the text like the server does, so marks replace it.
	marked := marks{prefix: string(uuid.NewUUID())}
	sent.Spec.Devices.Config = nil
	for i, config := range claim.Spec.Devices.Config {
		if i < len(stored.Spec.Devices.Config) {
			config.Opaque = marked.put(config.Opaque, stored.Spec.Devices.Config[i].Opaque)
		}
		sent.Spec.Devices.Config = append(sent.Spec.Devices.Config, config)
	}
	if allocation := claim.Status.Allocation; allocation != nil && stored.Status.Allocation != nil {
		copied := *allocation
		copied.Devices.Config = nil
		for i, config := range allocation.Devices.Config {
			if i < len(stored.Status.Allocation.Devices.Config) {
				config.Opaque = marked.put(config.Opaque, stored.Status.Allocation.Devices.Config[i].Opaque)
			}
			copied.Devices.Config = append(copied.Devices.Config, config)
		}
		sent.Status.Allocation = &copied
	}
	if body, err = json.Marshal(&sent); err != nil {
		return nil, false, fmt.Errorf("write claim %s/%s as JSON: %w", claim.Namespace, claim.Name, err)
	}
	for i, text := range marked.texts {
		body = bytes.Replace(body, marked.mark(i), text, 1)
	}
	return body, len(marked.texts) > 0, nil
}

// marks are placeholders for texts in JSON.
type marks struct {
	// prefix occurs nowhere else.
	prefix string
	texts  [][]byte
}

func (m *marks) mark(i int) []byte { return strconv.AppendQuote(nil, m.prefix+strconv.Itoa(i)+"$") }

// put returns the configuration with a mark instead of its parameters, if the stored ones are equal but have another
// text.
func (m *marks) put(config *resourceapi.OpaqueDeviceConfiguration, stored *resourcev1beta1.OpaqueDeviceConfiguration) *resourceapi.OpaqueDeviceConfiguration {
	if config == nil || stored == nil || bytes.Equal(config.Parameters.Raw, stored.Parameters.Raw) ||
		!bytes.Equal(shown(config.Parameters.Raw), shown(stored.Parameters.Raw)) {
		return config
	}
	marked := *config
	marked.Parameters.Raw = m.mark(len(m.texts))
	m.texts = append(m.texts, stored.Parameters.Raw)
	return &marked
}

// shown returns stored JSON as the server shows it.
func shown(stored []byte) []byte {
	var compact, escaped bytes.Buffer
	if err := json.Compact(&compact, stored); err != nil {
		return stored // The server does not show invalid JSON.
	}
	json.HTMLEscape(&escaped, compact.Bytes())
	return escaped.Bytes()
}
