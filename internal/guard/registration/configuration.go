package registration

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
)

const (
	// Name is the name of the ValidatingWebhookConfiguration.
	Name = "quartermaster-guard"
	// WebhookName is the name of the webhook in it.
	WebhookName = write.Webhook
	// LeaseAnnotation names the guards' Lease, as "namespace/name".
	LeaseAnnotation = "quartermaster-dra.github.io/lease"
	// timeoutSeconds limits the time that API servers wait for an answer.
	timeoutSeconds = 5
)

// New returns the shipped configuration for guards that are reached at client, without the bundle of certificate
// authorities.
//
// It covers all versions of the API, and the review contains the claim in the version of the request. It selects
// nothing by labels, because every allocation counts. It covers nothing but allocations, because policy Fail refuses
// requests while no guard answers.
//
// lease is the guards' Lease, as "namespace/name".
func New(client admissionregistrationv1.WebhookClientConfig, lease string, policy admissionregistrationv1.FailurePolicyType) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: Name, Annotations: map[string]string{LeaseAnnotation: lease}},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    WebhookName,
			ClientConfig:            client,
			Rules:                   rules(),
			FailurePolicy:           &policy,
			MatchPolicy:             ptr.To(admissionregistrationv1.Equivalent),
			NamespaceSelector:       &metav1.LabelSelector{},
			ObjectSelector:          &metav1.LabelSelector{},
			MatchConditions:         conditions(),
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNoneOnDryRun),
			TimeoutSeconds:          ptr.To[int32](timeoutSeconds),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

func rules() []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{resourceapi.GroupName}, APIVersions: []string{"*"}, Resources: []string{"resourceclaims/status"},
			Scope: ptr.To(admissionregistrationv1.AllScopes),
		},
	}}
}

// conditions select new allocations: the claim gets another allocation than before. All versions of the API have the
// allocation in the same field.
func conditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{
		Name: "allocates",
		Expression: "has(object.status) && has(object.status.allocation) && " +
			"(!has(oldObject.status) || !has(oldObject.status.allocation) || object.status.allocation != oldObject.status.allocation)",
	}}
}

// Check returns an error if the configuration keeps API servers from asking the guard about all allocations. The
// failurePolicy and the address of the guard are up to the cluster.
func Check(config *admissionregistrationv1.ValidatingWebhookConfiguration) error {
	if webhook := webhookOf(config); webhook != nil {
		return check(webhook)
	}
	return fmt.Errorf("ValidatingWebhookConfiguration %s has no webhook %s", config.Name, WebhookName)
}

// PolicyOf returns the failurePolicy of the guard's webhook; "" if the configuration has no such webhook.
func PolicyOf(config *admissionregistrationv1.ValidatingWebhookConfiguration) admissionregistrationv1.FailurePolicyType {
	if webhook := webhookOf(config); webhook != nil {
		return ptr.Deref(webhook.FailurePolicy, admissionregistrationv1.Fail) // The API's default.
	}
	return ""
}

// webhookOf returns the guard's webhook in a configuration, nil if there is none.
func webhookOf(config *admissionregistrationv1.ValidatingWebhookConfiguration) *admissionregistrationv1.ValidatingWebhook {
	for i := range config.Webhooks {
		if config.Webhooks[i].Name == WebhookName {
			return &config.Webhooks[i]
		}
	}
	return nil
}

func check(webhook *admissionregistrationv1.ValidatingWebhook) error {
	selects := func(selector *metav1.LabelSelector) bool {
		return selector != nil && len(selector.MatchLabels)+len(selector.MatchExpressions) > 0
	}
	wrong := ""
	switch {
	case !apiequality.Semantic.DeepEqual(webhook.Rules, rules()):
		wrong = "rules that are not those shipped"
	case selects(webhook.NamespaceSelector):
		wrong = "a namespaceSelector"
	case selects(webhook.ObjectSelector):
		wrong = "an objectSelector"
	case !apiequality.Semantic.DeepEqual(webhook.MatchConditions, conditions()):
		wrong = "matchConditions that are not those shipped"
	case len(webhook.ClientConfig.CABundle) == 0:
		wrong = "no caBundle (yet)"
	default:
		return nil
	}
	return fmt.Errorf("webhook %s has %s, so API servers do not ask the guard about every allocation, or about more than allocations; apply its manifests", webhook.Name, wrong)
}
