package registration

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/guard/marks"
)

const (
	// Name is that of the ValidatingWebhookConfiguration.
	Name = "quartermaster-guard"
	// WebhookName is that of the webhook in it.
	WebhookName = marks.Webhook
	// LeaseAnnotation says where the guards' Lease is, as "namespace/name".
	LeaseAnnotation = "quartermaster-dra.github.io/lease"
	// timeoutSeconds is how long the API server waits for an answer.
	timeoutSeconds = 5
)

// New returns the configuration as it is shipped, for guards that are reached at client, without
// the bundle of certificate authorities.
//
// It is for all versions of the API: what is asked about is a claim in the version of the request.
// Nothing is left out by labels, because everything that allocates counts, and nothing else is asked about:
// what no guard answers is refused with policy Fail.
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

// conditions are for what newly allocates: a claim that gets another allocation than it had. All versions of
// the API have it in that place.
func conditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{
		Name: "allocates",
		Expression: "has(object.status) && has(object.status.allocation) && " +
			"(!has(oldObject.status) || !has(oldObject.status.allocation) || object.status.allocation != oldObject.status.allocation)",
	}}
}

// Check returns what of a configuration keeps API servers from asking the guard about all
// allocations, nil if nothing does. What happens when no guard answers (failurePolicy) and where
// it is reached is up to the cluster.
func Check(config *admissionregistrationv1.ValidatingWebhookConfiguration) error {
	if webhook := webhookOf(config); webhook != nil {
		return check(webhook)
	}
	return fmt.Errorf("ValidatingWebhookConfiguration %s has no webhook %s", config.Name, WebhookName)
}

// PolicyOf returns what API servers do with allocations while no guard answers; "" if they are not
// going to ask any.
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
