package apiversions

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// isNotServed reports whether an error says that the server has no such resource in that
// version. It is not the API that answers then, so the client finds no status in the
// answer. An object that does not exist is another matter.
func isNotServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// newNotServed is the error for a resource that the server has in no version. It is not
// one by itself for isNotServed: nothing is gained by asking again.
func newNotServed(resource string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure,
		Code:   http.StatusNotFound,
		Reason: metav1.StatusReasonNotFound,
		Message: fmt.Sprintf("the API server has %s.resource.k8s.io in none of the versions %v; turn one of them on (kube-apiserver --runtime-config), or use a server that has it",
			resource, convertible[resource]),
	}}
}

// newExpired makes whoever watches list again.
func newExpired(resource string) *metav1.Status {
	status := apierrors.NewResourceExpired(fmt.Sprintf("%s.resource.k8s.io has become available; list again", resource)).Status()
	return &status
}
