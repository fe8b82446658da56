package apiversions

import (
	resourceapi "k8s.io/api/resource/v1"
	applyv1 "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"
	"k8s.io/client-go/rest"
)

// resources implements the client interface of resource.k8s.io/v1.
type resources struct {
	client  kubernetes.Interface
	untyped dynamic.Interface
	served  *Served
	alpha3  alpha3
	alpha2  alpha2
	// resolver says what claims of v1alpha2 ask for.
	resolver *Resolver
}

var _ resourceclient.ResourceV1Interface = &resources{}

// RESTClient returns the client for requests to v1, as they are.
func (r *resources) RESTClient() rest.Interface { return r.client.ResourceV1().RESTClient() }

func (r *resources) ResourceClaims(namespace string) resourceclient.ResourceClaimInterface {
	return &anyVersion[resourceapi.ResourceClaim, resourceapi.ResourceClaimList, applyv1.ResourceClaimApplyConfiguration]{r.served, claimResource,
		func(version Version) backend[resourceapi.ResourceClaim, resourceapi.ResourceClaimList] {
			switch version {
			case V1:
				return r.client.ResourceV1().ResourceClaims(namespace)
			case V1beta2:
				return newConverted[resourceapi.ResourceClaim, resourceapi.ResourceClaimList](claimResource, version, r.client.ResourceV1beta2().ResourceClaims(namespace))
			case V1beta1:
				return newConverted[resourceapi.ResourceClaim, resourceapi.ResourceClaimList](claimResource, version, r.client.ResourceV1beta1().ResourceClaims(namespace))
			case V1alpha3:
				return r.alpha3.claims(namespace)
			case V1alpha2:
				return r.alpha2.claims(namespace)
			default:
				return absent[resourceapi.ResourceClaim, resourceapi.ResourceClaimList]{r.served, claimResource}
			}
		},
	}
}

func (r *resources) ResourceClaimTemplates(namespace string) resourceclient.ResourceClaimTemplateInterface {
	return &anyVersion[resourceapi.ResourceClaimTemplate, resourceapi.ResourceClaimTemplateList, applyv1.ResourceClaimTemplateApplyConfiguration]{r.served, templateResource,
		func(version Version) backend[resourceapi.ResourceClaimTemplate, resourceapi.ResourceClaimTemplateList] {
			switch version {
			case V1:
				return r.client.ResourceV1().ResourceClaimTemplates(namespace)
			case V1beta2:
				return newConverted[resourceapi.ResourceClaimTemplate, resourceapi.ResourceClaimTemplateList](templateResource, version, r.client.ResourceV1beta2().ResourceClaimTemplates(namespace))
			case V1beta1:
				return newConverted[resourceapi.ResourceClaimTemplate, resourceapi.ResourceClaimTemplateList](templateResource, version, r.client.ResourceV1beta1().ResourceClaimTemplates(namespace))
			case V1alpha3:
				return r.alpha3.templates(namespace)
			case V1alpha2:
				return r.alpha2.templates(namespace)
			default:
				return absent[resourceapi.ResourceClaimTemplate, resourceapi.ResourceClaimTemplateList]{r.served, templateResource}
			}
		},
	}
}

func (r *resources) DeviceClasses() resourceclient.DeviceClassInterface {
	return &anyVersion[resourceapi.DeviceClass, resourceapi.DeviceClassList, applyv1.DeviceClassApplyConfiguration]{r.served, classResource,
		func(version Version) backend[resourceapi.DeviceClass, resourceapi.DeviceClassList] {
			switch version {
			case V1:
				return r.client.ResourceV1().DeviceClasses()
			case V1beta2:
				return newConverted[resourceapi.DeviceClass, resourceapi.DeviceClassList](classResource, version, r.client.ResourceV1beta2().DeviceClasses())
			case V1beta1:
				return newConverted[resourceapi.DeviceClass, resourceapi.DeviceClassList](classResource, version, r.client.ResourceV1beta1().DeviceClasses())
			case V1alpha3:
				return r.alpha3.classes()
			case V1alpha2:
				return r.alpha2.classes()
			default:
				return absent[resourceapi.DeviceClass, resourceapi.DeviceClassList]{r.served, classResource}
			}
		},
	}
}

func (r *resources) ResourceSlices() resourceclient.ResourceSliceInterface {
	return &anyVersion[resourceapi.ResourceSlice, resourceapi.ResourceSliceList, applyv1.ResourceSliceApplyConfiguration]{r.served, sliceResource,
		func(version Version) backend[resourceapi.ResourceSlice, resourceapi.ResourceSliceList] {
			switch version {
			case V1:
				return r.client.ResourceV1().ResourceSlices()
			case V1beta2:
				return newConverted[resourceapi.ResourceSlice, resourceapi.ResourceSliceList](sliceResource, version, r.client.ResourceV1beta2().ResourceSlices())
			case V1beta1:
				return newConverted[resourceapi.ResourceSlice, resourceapi.ResourceSliceList](sliceResource, version, r.client.ResourceV1beta1().ResourceSlices())
			case V1alpha3:
				return r.alpha3.slices()
			case V1alpha2:
				return r.alpha2.slices()
			default:
				return absent[resourceapi.ResourceSlice, resourceapi.ResourceSliceList]{r.served, sliceResource}
			}
		},
	}
}

func (r *resources) DeviceTaintRules() resourceclient.DeviceTaintRuleInterface {
	return &anyVersion[resourceapi.DeviceTaintRule, resourceapi.DeviceTaintRuleList, applyv1.DeviceTaintRuleApplyConfiguration]{r.served, ruleResource,
		func(version Version) backend[resourceapi.DeviceTaintRule, resourceapi.DeviceTaintRuleList] {
			switch version {
			case V1:
				return r.client.ResourceV1().DeviceTaintRules()
			case V1beta2:
				return newConverted[resourceapi.DeviceTaintRule, resourceapi.DeviceTaintRuleList](ruleResource, version, r.client.ResourceV1beta2().DeviceTaintRules())
			case V1alpha3:
				return alphaRules{r.untyped.Resource(alphaRuleResource)}
			default:
				return absent[resourceapi.DeviceTaintRule, resourceapi.DeviceTaintRuleList]{r.served, ruleResource}
			}
		},
	}
}
