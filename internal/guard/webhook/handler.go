package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/guard"
)

// Reviewer decides about requests.
type Reviewer interface {
	Review(ctx context.Context, r *guard.Request) guard.Answer
}

// Handler answers AdmissionReviews. Create it with NewHandler.
type Handler struct {
	reviewer    Reviewer
	limits      limits
	connections *Connections // nil without a bound

	// Served says in which versions API servers serve claims; nil means in all. It must be set before use.
	Served Served
}

// Served tracks the versions of the API servers.
type Served interface {
	// MayServeClaims reports whether they may serve claims in a version.
	MayServeClaims(api.Version) bool
}

// NewHandler returns a handler that asks the reviewer for decisions. It tells connections, unless nil, which of them
// have brought reviews.
func NewHandler(reviewer Reviewer, connections *Connections) *Handler {
	return &Handler{reviewer: reviewer, limits: newLimits(), connections: connections}
}

// ServeHTTP implements http.Handler. It answers 200 with a decision; 503 if this process does not decide or too many
// requests arrive, which API servers treat like an unreachable webhook (failurePolicy); and 4xx for anything that is
// not a review of a claim.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	if r.Method != http.MethodPost {
		fail(w, http.StatusMethodNotAllowed, fmt.Errorf("asked with %s for something that is only answered to POST with an AdmissionReview", r.Method))
		return
	}
	read, err := h.limits.read(w, r)
	switch {
	case errors.Is(err, errTooLarge):
		fail(w, http.StatusRequestEntityTooLarge, err)
		return
	case errors.Is(err, errTooMany):
		fail(w, http.StatusServiceUnavailable, err)
		return
	case err != nil:
		fail(w, http.StatusBadRequest, err)
		return
	}
	defer read.done()
	review, request, err := read.decode()
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	if version := review.Request.Resource.Version; h.Served != nil && !h.Served.MayServeClaims(api.Version(version)) {
		fail(w, http.StatusBadRequest, fmt.Errorf("asked about a claim in version %s, which the API server does not serve", version))
		return
	}
	if h.connections != nil {
		h.connections.asked(r.RemoteAddr)
	}
	answer := h.reviewer.Review(r.Context(), request)
	metrics.observe(request, answer, began)
	if answer.Kind == guard.NotDeciding {
		fail(w, http.StatusServiceUnavailable, errors.New(answer.Reason))
		return
	}
	respond(w, review, answer, request.Allocates() && isOurs(review.Request))
	if answer.Kind == guard.Denied {
		klog.FromContext(r.Context()).Info("Denied an allocation", "claim", request.Claim, "by", review.Request.UserInfo.Username, "reason", answer.Reason)
	}
}

// fail answers a request that gets no decision.
func fail(w http.ResponseWriter, code int, err error) {
	metrics.failed(code)
	klog.V(4).InfoS("Not answering a request to the guard", "code", code, "reason", err)
	if code == http.StatusServiceUnavailable || code == http.StatusUnauthorized {
		// Otherwise the API server would reuse this connection, even if the Service leads to another guard by now
		// that decides, or if the API server has got a certificate.
		w.Header().Set("Connection", "close")
	}
	http.Error(w, err.Error(), code)
}

// respond sends a decision.
//
// A denial has code 403: kube-scheduler repeats the same write after 409 and 429, but gives up the plan after 403;
// the pod's next attempt makes a plan with current data.
//
// A mark tells a Quartermaster scheduler that the guard was asked.
func respond(w http.ResponseWriter, review *admissionv1.AdmissionReview, answer guard.Answer, mark bool) {
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: answer.Kind == guard.Allowed}
	if response.Allowed && mark {
		response.Warnings = []string{write.Text}
	}
	if !response.Allowed {
		response.Result = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: answer.Reason}
	}
	w.Header().Set("Content-Type", "application/json")
	// The connection may be gone; API servers then treat the webhook as unresponsive.
	_ = json.NewEncoder(w).Encode(&admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
}
