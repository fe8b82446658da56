package preemption

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestReleasedLate: the claim of a victim is released long after the victim is gone, because the API server refuses
// that to everybody. Nobody else is evicted meanwhile, nobody else gets the device, and then the preemptor does.
func TestReleasedLate(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "released-late", 1)
	s.Devices(0, harness.Numbered(2)...)
	s.Create(builder.Claim("device", s.Want(1)).Template(), builder.Claim("victim", s.Want(1)).Obj(),
		s.Pod("bystander", builder.FromTemplate("device")))
	s.Running("bystander")
	time.Sleep(time.Second) // By kube-scheduler's own order, the older one is more important.
	s.Create(s.Pod("victim", builder.Uses("victim")))
	s.Running("victim")
	allow := forbidRelease(s)

	s.Create(ofClass(s.Pod("preemptor", builder.FromTemplate("device")), important))
	nominated(s, "preemptor")
	s.Gone("victim")
	s.Create(s.Pod("late", builder.FromTemplate("device")))
	s.Waiting("late", "held by other claims")
	time.Sleep(3 * time.Second)
	require.Equal(t, 1, s.Bound(), "the bystander, and nobody else")
	allow()
	s.Running("preemptor", "bystander")
	s.Waiting("late", "held by other claims")
}

// forbidRelease has the API server refuse to release claims in the space's namespace, until the function that it returns
// is called.
func forbidRelease(s *harness.Space) (allow func()) {
	s.T.Helper()
	ctx, policies := context.Background(), cluster.Client.AdmissionregistrationV1()
	name := "keep-claims-of-" + s.Name
	fail := admissionregistrationv1.Fail
	_, err := policies.ValidatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.Name}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule: admissionregistrationv1.Rule{
						APIGroups: []string{"resource.k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"resourceclaims/status"},
					},
				}}},
			},
			Validations: []admissionregistrationv1.Validation{{
				Expression: "!has(oldObject.status.reservedFor) || has(object.status.reservedFor) && size(object.status.reservedFor) >= size(oldObject.status.reservedFor)",
				Message:    "a test wants claims to be released late",
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(s.T, err)
	_, err = policies.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}, metav1.CreateOptions{})
	require.NoError(s.T, err)
	allow = func() {
		for _, err := range []error{
			policies.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}),
			policies.ValidatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{}),
		} {
			if err != nil && !apierrors.IsNotFound(err) {
				s.T.Errorf("delete the policy: %v", err)
			}
		}
	}
	s.T.Cleanup(allow)
	s.Eventually("the API server keeps claims from being released", func(ctx context.Context) error { return tryRelease(ctx, s, "victim") })
	return allow
}

// tryRelease fails unless the API server refuses to release a claim. It changes nothing.
func tryRelease(ctx context.Context, s *harness.Space, name string) error {
	claims := cluster.Client.ResourceV1().ResourceClaims(s.Name)
	claim, err := claims.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	claim.Status.ReservedFor = nil
	_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return errors.New("it does not yet")
	case !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err):
		return fmt.Errorf("it refuses for another reason: %w", err)
	}
	return nil
}
