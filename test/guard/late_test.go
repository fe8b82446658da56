package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// obstacle is a webhook of somebody else. What it denies was approved by the guard at the same time,
// and is never stored.
type obstacle struct {
	// denied are the resources of a claim called "x" that cannot be written to.
	denied map[string]bool
	asked  atomic.Int32
}

// startObstacle has API servers ask it about a namespace until the test ends.
func startObstacle(s *tenant, denied ...string) *obstacle {
	s.T.Helper()
	o := &obstacle{denied: make(map[string]bool)}
	for _, resource := range denied {
		o.denied[resource] = true
	}
	server := httptest.NewTLSServer(o)
	s.T.Cleanup(server.Close)
	certificate := &bytes.Buffer{}
	require.NoError(s.T, pem.Encode(certificate, &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	configs := cluster.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := configs.Create(s.T.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:         "obstacle.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &server.URL, CABundle: certificate.Bytes()},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{resourceapi.GroupName}, APIVersions: []string{"*"}, Resources: []string{"resourceclaims", "resourceclaims/status"}},
			}},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.Name}},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	require.NoError(s.T, err)
	s.T.Cleanup(func() {
		require.NoError(s.T, configs.Delete(context.WithoutCancel(s.T.Context()), s.Name, metav1.DeleteOptions{}))
	})
	return o
}

func (o *obstacle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	review := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(r.Body).Decode(review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	asked := review.Request
	resource := asked.Resource.Resource
	if asked.SubResource != "" {
		resource += "/" + asked.SubResource
	}
	review.Response = &admissionv1.AdmissionResponse{UID: asked.UID, Allowed: asked.Name != "x" || !o.denied[resource], Result: &metav1.Status{Message: "an obstacle"}}
	if !review.Response.Allowed {
		o.asked.Add(1)
	}
	review.Request = nil
	_ = json.NewEncoder(w).Encode(review)
}

// approvedOnly has the guard approve a device for claim x that the obstacle keeps from being stored, and
// returns the claim as it was.
func (s *tenant) approvedOnly(o *obstacle) *resourceapi.ResourceClaim {
	s.T.Helper()
	s.claims("x", "y")
	before := s.stored("x")
	s.Eventually("have the obstacle in the way", func(ctx context.Context) error {
		trial := before.DeepCopy()
		trial.Status.Allocation = s.allocation("gpu-0")
		_, err := cluster.Client.ResourceV1().ResourceClaims(s.Name).UpdateStatus(ctx, trial, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "an obstacle") {
			return fmt.Errorf("the answer was: %v", err)
		}
		return nil
	})
	s.Eventually("have a write approved that is not stored", func(ctx context.Context) error {
		require.ErrorContains(s.T, s.allocate(ctx, "x", "gpu-0"), "an obstacle")
		err := s.allocate(ctx, "y", "gpu-0")
		if err == nil {
			require.NoError(s.T, s.release(ctx, "y"))
		}
		return isDenied(err)
	})
	require.Positive(s.T, o.asked.Load())
	require.Nil(s.T, s.stored("x").Status.Allocation)
	return before
}

// freed waits until claim y gets the device.
func (s *tenant) freed() {
	s.T.Helper()
	s.Eventually("have the device of the write that was not stored", func(ctx context.Context) error { return s.allocate(ctx, "y", "gpu-0") })
	require.NoError(s.T, s.release(s.T.Context(), "y"))
}

// TestApprovedButNotStored: the claim gets a newer version, and its device comes free.
func TestApprovedButNotStored(t *testing.T) {
	g, s := installGuards(t, admissionregistrationv1.Fail), newTenant(t, "not-stored", 2)
	g.start()
	g.decider()
	s.guarded()
	before := s.approvedOnly(startObstacle(s, "resourceclaims/status"))
	s.freed()
	after := s.stored("x")
	require.NotEmpty(t, after.Annotations[write.FenceAnnotation])
	require.Nil(t, after.Status.Allocation)

	before.Status.Allocation = s.allocation("gpu-0")
	_, err := cluster.Client.ResourceV1().ResourceClaims(s.Name).UpdateStatus(t.Context(), before, metav1.UpdateOptions{})
	require.True(t, apierrors.IsConflict(err), "the write that was approved would be refused now: %v", err)
}

// TestClaimThatNobodyCanWriteTo: nothing rules the write out but time, and then the device comes free.
func TestClaimThatNobodyCanWriteTo(t *testing.T) {
	harness.Long(t, "a question stays open until its time is over")
	g, s := installGuards(t, admissionregistrationv1.Fail), newTenant(t, "not-writable", 2)
	// It is told that API servers give up early. The one here does not, but nothing is on its way.
	g.start("--request-timeout=3s")
	g.decider()
	s.guarded()
	before := s.approvedOnly(startObstacle(s, "resourceclaims/status", "resourceclaims"))
	s.freed()
	require.Equal(t, before.ResourceVersion, s.stored("x").ResourceVersion)

	// Another guard gets over it, too.
	require.NoError(t, g.processes[0].Stop())
	g.start("--request-timeout=3s")
	g.decider(g.processes[0])
	s.freed()
	require.Equal(t, before.ResourceVersion, s.stored("x").ResourceVersion)
}
