package harness

import (
	"context"
	"errors"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Refuse has the API server refuse requests in the space's namespace for which an expression is false, until the function
// that it returns is called. ConfigMaps are refused as well: by these it finds out when the policy is in force.
func (s *Space) Refuse(resource, group string, operation admissionregistrationv1.OperationType, expression string) (allow func()) {
	s.T.Helper()
	ctx, policies := context.Background(), s.Cluster.Client.AdmissionregistrationV1()
	name := "refuse-in-" + s.Name
	fail := admissionregistrationv1.Fail
	rule := func(group, resource string, operation admissionregistrationv1.OperationType) admissionregistrationv1.NamedRuleWithOperations {
		return admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{operation},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
		}}
	}
	_, err := policies.ValidatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.Name}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
					rule(group, resource, operation), rule("", "configmaps", admissionregistrationv1.Create),
				},
			},
			Validations: []admissionregistrationv1.Validation{{
				Expression: "request.resource.resource != 'configmaps' && (" + expression + ")", Message: "a test wants this to be refused",
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
	s.Eventually("the policy is in force", func(ctx context.Context) error {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-"}}
		_, err := s.Cluster.Client.CoreV1().ConfigMaps(s.Name).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("it is not yet")
		}
		if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
			return err
		}
		return nil
	})
	return allow
}

// RefuseBindings has the API server refuse to bind some pods until the function that it returns is called, so that a scheduler is not
// through with them.
func (s *Space) RefuseBindings(pods string) (allow func()) {
	s.T.Helper()
	return s.Refuse("pods/binding", "", admissionregistrationv1.Create, "!("+pods+")")
}
