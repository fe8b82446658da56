package apiversions

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/quartermaster-dra/quartermaster/internal/legacy/hub"
	"github.com/quartermaster-dra/quartermaster/internal/legacy/v1alpha2"
	"github.com/quartermaster-dra/quartermaster/internal/legacy/v1alpha3"
)

// StoresExtendedResources reports whether the server behind a client set may be able to
// record in a pod's status which claim serves its extended resources (KEP-5004,
// status.extendedResourceClaimStatus). Servers before 1.34, which do not have claims in
// v1, drop that field without an error, and the kubelet would never learn of the devices.
// Later servers have a feature gate for it, which cannot be seen from outside.
func StoresExtendedResources(client kubernetes.Interface) bool {
	served := Of(client)
	return served == nil || served.Version(claimResource) == V1
}

// NoClaims returns a function that tells why no claim can exist on the server behind a
// client set, nil if claims can exist. That changes if the server does. It is for pods of
// which the server keeps the claims all the same: kube-apiserver drops them from pods that
// are created while its feature gate is off.
func NoClaims(client kubernetes.Interface) func() error {
	served := Of(client)
	return func() error {
		if served == nil || served.Version(claimResource) != None {
			return nil
		}
		return newNotServed(claimResource)
	}
}

// ConsumerLimit returns a function that tells how many entries status.reservedFor of a
// claim may have on the server behind a client set. That changes if the server does.
func ConsumerLimit(client kubernetes.Interface) func(*resourceapi.ResourceClaim) int {
	served := Of(client)
	return func(claim *resourceapi.ResourceClaim) int {
		if served == nil {
			return resourceapi.ResourceClaimReservedForMaxSize
		}
		return served.Version(claimResource).consumerLimit(claim)
	}
}

func (v Version) consumerLimit(claim *resourceapi.ResourceClaim) int {
	switch {
	case v == V1alpha2 && hub.AlphaClaimOf(claim).Exclusive:
		return 1
	case v == V1alpha2:
		return v1alpha2.MaxConsumers
	case v == V1alpha3:
		return v1alpha3.MaxConsumers
	default:
		return resourceapi.ResourceClaimReservedForMaxSize
	}
}

// ClaimVersion returns a function that tells the apiVersion of claims on the server behind a client set, for
// references that others are to follow. That changes if the server does; one that has none is taken for one with v1.
func ClaimVersion(client kubernetes.Interface) func() string {
	served := Of(client)
	return func() string {
		if served == nil || served.Version(claimResource) == None {
			return V1.groupVersion()
		}
		return served.Version(claimResource).groupVersion()
	}
}
