package guard

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

// attacker reaches the guard's port.
type attacker struct {
	*tenant
	process *scheduler.Process
	client  *http.Client
	// url is where API servers ask, which an attacker does not know.
	url string
	// known is a claim that exists.
	known *resourceapi.ResourceClaim
	made  atomic.Int64
}

// attack is something that is done again and again by so many at a time, each with a pause between
// two times: on a machine that the attackers share with all others, they could as well take all of it.
type attack struct {
	name    string
	atATime int
	pause   time.Duration
	once    func(ctx context.Context, a *attacker, who int)
}

var attacks = []attack{
	{"huge", 4, 200 * time.Millisecond, func(ctx context.Context, a *attacker, _ int) { a.send(ctx, strings.NewReader(huge)) }},
	{"larger than anything", 4, 200 * time.Millisecond, func(ctx context.Context, a *attacker, _ int) { a.send(ctx, strings.NewReader(huge+huge)) }},
	{"endless", 4, 200 * time.Millisecond, func(ctx context.Context, a *attacker, _ int) {
		a.send(ctx, io.MultiReader(strings.NewReader(`{"a":"`), endless{}))
	}},
	{"malformed", 16, 50 * time.Millisecond, func(ctx context.Context, a *attacker, _ int) {
		a.send(ctx, strings.NewReader(strings.Repeat("[", 50000)))
	}},
	{"quantities that take hours to parse", 16, 50 * time.Millisecond, func(ctx context.Context, a *attacker, _ int) {
		allocation := a.allocation("gpu-1")
		allocation.Devices.Results[0].ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("77777")}
		body, _ := io.ReadAll(a.question(a.known, allocation, nil))
		a.send(ctx, strings.NewReader(strings.ReplaceAll(string(body), `"77777"`, `"1e-999999999"`)))
	}},
	{"other kinds", 16, 20 * time.Millisecond, func(ctx context.Context, a *attacker, _ int) {
		a.send(ctx, a.review(a.invented(), "gpu-1", func(r *admissionv1.AdmissionRequest) { r.Resource.Resource, r.SubResource = "pods", "" }))
	}},
	{"wrong versions", 16, 20 * time.Millisecond, func(ctx context.Context, a *attacker, _ int) {
		a.send(ctx, a.review(a.invented(), "gpu-1", func(r *admissionv1.AdmissionRequest) { r.Resource.Version = "v7" }))
	}},
	{"slow connections", 200, 50 * time.Millisecond, func(ctx context.Context, a *attacker, who int) { a.sendSlowly(ctx, 1000<<(who%2*10)) }},
	{"devices that do not exist", 200, 0, func(ctx context.Context, a *attacker, _ int) { a.send(ctx, a.review(a.known, "gpu-1000", nil)) }},
	{"claims that do not exist", 16, 5 * time.Millisecond, func(ctx context.Context, a *attacker, _ int) {
		a.send(ctx, a.question(a.invented(), a.allocation("gpu-1"), nil))
	}},
	{"thousands of claims", 8, 20 * time.Millisecond, func(ctx context.Context, a *attacker, _ int) {
		claim := a.invented()
		_ = cluster.Objects.Create(ctx, a.Name, claim)
		_ = a.allocate(ctx, claim.Name, "gpu-2")
	}},
}

var huge = `{"a":"` + strings.Repeat("x", 5<<20) + `"}`

// endless is a body that does not end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// trusting returns a client that trusts authorities, as API servers do.
func trusting(bundle []byte) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, TLSClientConfig: &tls.Config{RootCAs: roots}}}
}

// send sends something to the guard, and does not care for the answer.
func (a *attacker) send(ctx context.Context, body io.Reader) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, body)
	if err != nil {
		panic(err)
	}
	if response, err := a.client.Do(request); err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
}

// sendSlowly opens a connection, says that it is going to send so many bytes, and sends some of them for
// as long as the guard lets it.
func (a *attacker) sendSlowly(ctx context.Context, length int) {
	dialer := tls.Dialer{Config: a.client.Transport.(*http.Transport).TLSClientConfig}
	connection, err := dialer.DialContext(ctx, "tcp", a.process.Address())
	if err != nil {
		return
	}
	defer connection.Close()
	if _, err := fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: guard\r\nContent-Length: %d\r\n\r\n", a.url, length); err != nil {
		return
	}
	for range length {
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
		if _, err := connection.Write([]byte("{")); err != nil {
			return
		}
	}
}

// invented is a claim that does not exist, by a name that none has had.
func (a *attacker) invented() *resourceapi.ResourceClaim {
	return builder.Claim(fmt.Sprintf("invented-%d", a.made.Add(1)), a.Want(1)).In(a.Name).Obj()
}

// review is a question about a claim that is to have a device with admin access, so that nobody else is
// kept from having it.
func (a *attacker) review(before *resourceapi.ResourceClaim, device string, change func(*admissionv1.AdmissionRequest)) io.Reader {
	before = before.DeepCopy()
	for i := range before.Spec.Devices.Requests {
		before.Spec.Devices.Requests[i].Exactly.AdminAccess = ptr.To(true)
	}
	allocation := a.allocation(device)
	allocation.Devices.Results[0].AdminAccess = ptr.To(true)
	return a.question(before, allocation, change)
}

// question is what an API server sends about a claim that is to be allocated.
func (a *attacker) question(before *resourceapi.ResourceClaim, allocation *resourceapi.AllocationResult, change func(*admissionv1.AdmissionRequest)) io.Reader {
	after := before.DeepCopy()
	after.Status.Allocation = allocation
	review := &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "request", Operation: admissionv1.Update, SubResource: "status",
			Resource:  metav1.GroupVersionResource{Group: resourceapi.GroupName, Version: "v1", Resource: "resourceclaims"},
			Object:    runtime.RawExtension{Object: after},
			OldObject: runtime.RawExtension{Object: before},
		},
	}
	if change != nil {
		change(review.Request)
	}
	body, err := json.Marshal(review)
	if err != nil {
		panic(err)
	}
	return bytes.NewReader(body)
}

// reviewed has the guard review an allocation that nobody is going to store.
func (a *attacker) reviewed(ctx context.Context) error {
	response, err := a.answer(ctx, a.question(a.known, a.allocation("gpu-3"), func(r *admissionv1.AdmissionRequest) { r.DryRun = ptr.To(true) }))
	if err != nil {
		return err
	}
	if !response.Allowed {
		return fmt.Errorf("the guard denies what nobody holds: %s", response.Result.Message)
	}
	return nil
}

// answer is the guard's to a question.
func (a *attacker) answer(ctx context.Context, question io.Reader) (*admissionv1.AdmissionResponse, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, question)
	if err != nil {
		return nil, err
	}
	response, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the guard answers %s", response.Status)
	}
	review := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(response.Body).Decode(review); err != nil {
		return nil, err
	}
	return review.Response, nil
}
