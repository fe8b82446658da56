package webhook

import (
	"encoding/json"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/guard"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// isOurs reports whether a Quartermaster scheduler has sent the write, by its field manager. It only decides whether
// the answer gets a mark.
func isOurs(asked *admissionv1.AdmissionRequest) bool {
	options := struct{ FieldManager string }{}
	return json.Unmarshal(asked.Options.Raw, &options) == nil && options.FieldManager == write.FieldManager
}

// decode decodes the body. It always releases the bytes and the decoding slot.
func (b *body) decode() (*admissionv1.AdmissionReview, *guard.Request, error) {
	defer b.decoded()
	data := b.data
	b.data = nil
	return decode(data)
}

// decode decodes an AdmissionReview about an update of a claim's status. For anything else, the error describes it.
func decode(data []byte) (*admissionv1.AdmissionReview, *guard.Request, error) {
	review := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(data, review); err != nil {
		return nil, nil, fmt.Errorf("the request is no AdmissionReview: %w", err)
	}
	if review.APIVersion != admissionv1.SchemeGroupVersion.String() || review.Kind != "AdmissionReview" || review.Request == nil {
		return nil, nil, fmt.Errorf("the request is a %q of version %q; asked for are AdmissionReviews of version %s with a request",
			review.Kind, review.APIVersion, admissionv1.SchemeGroupVersion)
	}
	asked := review.Request
	if asked.UID == "" {
		return nil, nil, errors.New("the request has no UID; API servers set one to match the answer to it")
	}
	if asked.Resource.Group != resourceapi.GroupName || asked.Resource.Resource != "resourceclaims" || asked.SubResource != "status" || asked.Operation != admissionv1.Update {
		return nil, nil, fmt.Errorf("asked about %s of %s/%s in group %q; this webhook is for UPDATE of resourceclaims/status in group %s, "+
			"see that the ValidatingWebhookConfiguration says so", asked.Operation, asked.Resource.Resource, asked.SubResource, asked.Resource.Group, resourceapi.GroupName)
	}
	version := api.Version(asked.Resource.Version)
	if err := errors.Join(checkQuantities(version, asked.OldObject.Raw), checkQuantities(version, asked.Object.Raw)); err != nil {
		return nil, nil, err
	}
	before, errBefore := api.DecodeClaim(version, asked.OldObject.Raw)
	after, errAfter := api.DecodeClaim(version, asked.Object.Raw)
	if err := errors.Join(errBefore, errAfter); err != nil {
		return nil, nil, err
	}
	if before.UID == "" || !informer.AtLeast(before.ResourceVersion, before.ResourceVersion) || before.Name == "" || before.Namespace == "" {
		return nil, nil, errors.New("the claim as it was has no UID, no resourceVersion that is a number, no name or no namespace; no API server shows one like that")
	}
	if err := checkSize(asked.Resource.Version, after); err != nil {
		return nil, nil, err
	}
	// The bytes are no longer needed, and the request may have to wait.
	asked.Object.Raw, asked.OldObject.Raw = nil, nil
	return review, &guard.Request{
		Claim:   ledger.RefTo(before),
		Version: before.ResourceVersion,
		Before:  before.Status.Allocation,
		After:   after.Status.Allocation,
		// A status update does not change the spec.
		Requests:  before.Spec.Devices.Requests,
		Unbounded: version == api.V1alpha2,
		DryRun:    asked.DryRun != nil && *asked.DryRun,
		Consumers: after.Status.ReservedFor,
	}, nil
}

// maxAlpha2Devices is more than any node has. v1alpha2 had no limit, but decisions need bounded time.
const maxAlpha2Devices = 1024

// checkSize fails if a claim would get more devices than the API allows.
func checkSize(version string, claim *resourceapi.ResourceClaim) error {
	if claim.Status.Allocation == nil {
		return nil
	}
	most := resourceapi.AllocationResultsMaxSize
	if version == string(api.V1alpha2) {
		most = maxAlpha2Devices
	}
	if devices := len(claim.Status.Allocation.Devices.Results); devices > most {
		return fmt.Errorf("claim %s/%s was to get %d devices; the limit is %d", claim.Namespace, claim.Name, devices, most)
	}
	return nil
}
