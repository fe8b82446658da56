package apiversions

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

	"github.com/quartermaster-dra/quartermaster/internal/legacy/v1alpha3"
)

// exactClaims is a client for claims of v1alpha3 that writes opaque parameters as they are
// stored. The server keeps their bytes, takes a claim for changed if these differ, and then
// refuses the write. In JSON it shows them without white space and with <, > and & escaped,
// so that what came from a client that writes them in another way cannot be sent back.
// Protobuf has the bytes, but no types. Therefore it is read only after a refusal, and in
// the types of v1beta1: that version continues the numbers of the fields of v1alpha3. What
// is sent is JSON in which the parameters have the stored text, which the server accepts.
type exactClaims struct {
	*gentype.ClientWithList[*v1alpha3.ResourceClaim, *v1alpha3.ResourceClaimList]
	alpha     alpha
	namespace string
}

func newExactClaims(a alpha, namespace string) exactClaims {
	return exactClaims{clientOf[v1alpha3.ResourceClaim, v1alpha3.ResourceClaimList](a, claimResource, namespace), a, namespace}
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

// updateExactly tries again what the server has refused, unless that was not because of
// the text of parameters.
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

// protobufPrefix begins what a server sends as protobuf.
var protobufPrefix = []byte("k8s\x00")

// stored reads a claim as the server has it. The fields that v1beta1 does not have are
// missing.
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

// withStoredParameters returns a claim as JSON in which parameters that say the same as
// the stored ones have their text, and whether that makes a difference.
func withStoredParameters(claim *v1alpha3.ResourceClaim, stored *resourcev1beta1.ResourceClaim) (body []byte, differs bool, err error) {
	sent := *claim
	sent.APIVersion, sent.Kind = V1alpha3.groupVersion(), "ResourceClaim"
	// Encoding would do to the text what the server does. So there are marks in its place.
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

// marks stand for texts in JSON.
type marks struct {
	// prefix is in nothing else.
	prefix string
	texts  [][]byte
}

func (m *marks) mark(i int) []byte { return strconv.AppendQuote(nil, m.prefix+strconv.Itoa(i)+"$") }

// put returns the configuration with a mark instead of its parameters if the stored ones
// say the same in another text.
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

// shown is how the server shows JSON that it has stored.
func shown(stored []byte) []byte {
	var compact, escaped bytes.Buffer
	if err := json.Compact(&compact, stored); err != nil {
		return stored // It does not show that.
	}
	json.HTMLEscape(&escaped, compact.Bytes())
	return escaped.Bytes()
}
