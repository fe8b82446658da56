package api

import (
	"errors"
	"fmt"
	"net/http"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// isNotServed reports whether an error says that the server lacks the resource in that version. kube-apiserver
// answers with a status that names no object; other servers, and proxies, answer without a status. The error about a
// missing object has a name.
func isNotServed(err error) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return true
	}
	details := status.Status().Details
	return details.Name == "" && details.Kind == "" || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// newNotServed returns the error for a resource that the server has in no version. It names the resource, so that
// isNotServed is false for it.
func newNotServed(resource string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusNotFound,
		Reason:  metav1.StatusReasonNotFound,
		Details: &metav1.StatusDetails{Group: resourceapi.GroupName, Kind: resource},
		Message: fmt.Sprintf("the API server has %s.resource.k8s.io in none of the versions %v; turn one of them on (kube-apiserver --runtime-config) or use a server that has it",
			resource, convertible[resource]),
	}}
}

// newNotServedNow returns the error for a resource that the server has or may have in a version, but does not serve
// at the moment.
func newNotServedNow(resource string, version Version, err error) error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf("the API server does not have %s in %s at the moment and has not told of another version; "+
		"that passes when it has been replaced or when discovery works again: %v", resource, version.groupVersion(), err))
}

// newExpired returns the status that makes watching clients list again.
func newExpired(resource string) *metav1.Status {
	status := apierrors.NewResourceExpired(fmt.Sprintf("%s.resource.k8s.io has become available; list again", resource)).Status()
	return &status
}
