package api

import (
	resourceapi "k8s.io/api/resource/v1"
	applyv1 "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/client-go/kubernetes"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"
	"k8s.io/client-go/rest"

	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha2"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha3"
)

// resources implements the client interface of resource.k8s.io/v1.
type resources struct {
	client kubernetes.Interface
	served *Served
	alpha3 alpha
	alpha2 alpha
	// resolver finds the requests of claims of v1alpha2.
	resolver *Resolver
}

var _ resourceclient.ResourceV1Interface = &resources{}

// RESTClient returns the client for v1, without conversions.
func (r *resources) RESTClient() rest.Interface { return r.client.ResourceV1().RESTClient() }

func (r *resources) ResourceClaims(namespace string) resourceclient.ResourceClaimInterface {
	claims := kind[resourceapi.ResourceClaim, resourceapi.ResourceClaimList]{r.served, claimResource}
	return inVersions[applyv1.ResourceClaimApplyConfiguration](claims, versions[resourceapi.ResourceClaim, resourceapi.ResourceClaimList]{
		V1:       r.client.ResourceV1().ResourceClaims(namespace),
		V1beta2:  older(claims, V1beta2, r.client.ResourceV1beta2().ResourceClaims(namespace)),
		V1beta1:  older(claims, V1beta1, r.client.ResourceV1beta1().ResourceClaims(namespace)),
		V1alpha3: inAlpha(claims, r.alpha3, newExactClaims(r.alpha3, namespace)),
		V1alpha2: inAlpha(claims, r.alpha2, clientOf[v1alpha2.ResourceClaim](r.alpha2, claims.name, namespace)),
	})
}

func (r *resources) ResourceClaimTemplates(namespace string) resourceclient.ResourceClaimTemplateInterface {
	templates := kind[resourceapi.ResourceClaimTemplate, resourceapi.ResourceClaimTemplateList]{r.served, templateResource}
	return inVersions[applyv1.ResourceClaimTemplateApplyConfiguration](templates, versions[resourceapi.ResourceClaimTemplate, resourceapi.ResourceClaimTemplateList]{
		V1:       r.client.ResourceV1().ResourceClaimTemplates(namespace),
		V1beta2:  older(templates, V1beta2, r.client.ResourceV1beta2().ResourceClaimTemplates(namespace)),
		V1beta1:  older(templates, V1beta1, r.client.ResourceV1beta1().ResourceClaimTemplates(namespace)),
		V1alpha3: inAlpha(templates, r.alpha3, clientOf[v1alpha3.ResourceClaimTemplate](r.alpha3, templates.name, namespace)),
		V1alpha2: inAlpha(templates, r.alpha2, clientOf[v1alpha2.ResourceClaimTemplate](r.alpha2, templates.name, namespace)),
	})
}

func (r *resources) DeviceClasses() resourceclient.DeviceClassInterface {
	classes := kind[resourceapi.DeviceClass, resourceapi.DeviceClassList]{r.served, classResource}
	return inVersions[applyv1.DeviceClassApplyConfiguration](classes, versions[resourceapi.DeviceClass, resourceapi.DeviceClassList]{
		V1:       r.client.ResourceV1().DeviceClasses(),
		V1beta2:  older(classes, V1beta2, r.client.ResourceV1beta2().DeviceClasses()),
		V1beta1:  older(classes, V1beta1, r.client.ResourceV1beta1().DeviceClasses()),
		V1alpha3: inAlpha(classes, r.alpha3, clientOf[v1alpha3.DeviceClass](r.alpha3, classes.name, "")),
		V1alpha2: inAlpha(classes, r.alpha2, clientOf[v1alpha2.ResourceClass](r.alpha2, classes.name, "")),
	})
}

func (r *resources) ResourceSlices() resourceclient.ResourceSliceInterface {
	slices := kind[resourceapi.ResourceSlice, resourceapi.ResourceSliceList]{r.served, sliceResource}
	return inVersions[applyv1.ResourceSliceApplyConfiguration](slices, versions[resourceapi.ResourceSlice, resourceapi.ResourceSliceList]{
		V1:       r.client.ResourceV1().ResourceSlices(),
		V1beta2:  older(slices, V1beta2, r.client.ResourceV1beta2().ResourceSlices()),
		V1beta1:  older(slices, V1beta1, r.client.ResourceV1beta1().ResourceSlices()),
		V1alpha3: inAlpha(slices, r.alpha3, clientOf[v1alpha3.ResourceSlice](r.alpha3, slices.name, "")),
		V1alpha2: inAlpha(slices, r.alpha2, clientOf[v1alpha2.ResourceSlice](r.alpha2, slices.name, "")),
	})
}

func (r *resources) DeviceTaintRules() resourceclient.DeviceTaintRuleInterface {
	rules := kind[resourceapi.DeviceTaintRule, resourceapi.DeviceTaintRuleList]{r.served, ruleResource}
	return inVersions[applyv1.DeviceTaintRuleApplyConfiguration](rules, versions[resourceapi.DeviceTaintRule, resourceapi.DeviceTaintRuleList]{
		V1:       r.client.ResourceV1().DeviceTaintRules(),
		V1beta2:  older(rules, V1beta2, r.client.ResourceV1beta2().DeviceTaintRules()),
		V1alpha3: inAlpha(rules, r.alpha3, clientOf[v1alpha3.DeviceTaintRule](r.alpha3, rules.name, "")),
	})
}
