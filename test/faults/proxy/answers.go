package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refusals are the answers of the kinds that answer themselves.
var refusals = map[Kind]struct {
	code       int32
	reason     metav1.StatusReason
	retryAfter int32 // seconds; 0 is no header
}{
	Conflict:        {code: http.StatusConflict, reason: metav1.StatusReasonConflict},
	TooManyRequests: {code: http.StatusTooManyRequests, reason: metav1.StatusReasonTooManyRequests},
	RetryLater:      {code: http.StatusTooManyRequests, reason: metav1.StatusReasonTooManyRequests, retryAfter: 1},
	InternalError:   {code: http.StatusInternalServerError, reason: metav1.StatusReasonInternalError},
	Unavailable:     {code: http.StatusServiceUnavailable, reason: metav1.StatusReasonServiceUnavailable},
}

// refuse answers as an API server does that does not carry out a request.
func refuse(w http.ResponseWriter, kind Kind) {
	refusal := refusals[kind]
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Message:  fmt.Sprintf("the proxy between client and server made this up: %s", kind),
		Reason:   refusal.reason,
		Code:     refusal.code,
	}
	if refusal.retryAfter > 0 {
		status.Details = &metav1.StatusDetails{RetryAfterSeconds: refusal.retryAfter}
		w.Header().Set("Retry-After", strconv.Itoa(int(refusal.retryAfter)))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(refusal.code))
	// If the client is gone, there is nobody to tell.
	_ = json.NewEncoder(w).Encode(status)
}

// lost is the answer that nobody gets to see.
type lost struct{ header http.Header }

func (l lost) Header() http.Header               { return l.header }
func (l lost) WriteHeader(int)                   {}
func (l lost) Write(content []byte) (int, error) { return len(content), nil }

func copyAnswer(w http.ResponseWriter, answer *httptest.ResponseRecorder) {
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}
