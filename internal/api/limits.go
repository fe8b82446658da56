package api

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha2"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha3"
)

// StoresExtendedResources reports whether the server behind a client set may be able to record in a pod's status
// which claim serves its extended resources (KEP-5004, status.extendedResourceClaimStatus). Servers before 1.34,
// which do not have claims in v1, drop that field without an error, and the kubelet would never learn of the devices.
// Later servers have a feature gate for it, which clients cannot see.
func StoresExtendedResources(client kubernetes.Interface) bool {
	served := Of(client)
	return served == nil || served.Version(claimResource) == V1
}

// NoClaims returns a function that says why no claim can exist on the server behind a client set, nil if claims can
// exist. The answer changes with the server. It is for existing pods with claims: while its feature gate is off,
// kube-apiserver drops claims only from new pods.
func NoClaims(client kubernetes.Interface) func() error {
	served := Of(client)
	return func() error {
		if served == nil || served.Version(claimResource) != None {
			return nil
		}
		return newNotServed(claimResource)
	}
}

// ConsumerLimit returns a function that returns the limit of entries in a claim's status.reservedFor on the server
// behind a client set. The limit changes with the server.
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
	case v == V1alpha2 && conversion.AlphaClaimOf(claim).Exclusive:
		return 1
	case v == V1alpha2:
		return v1alpha2.MaxConsumers
	case v == V1alpha3:
		return v1alpha3.MaxConsumers
	default:
		return resourceapi.ResourceClaimReservedForMaxSize
	}
}

// ClaimVersion returns a function that returns the apiVersion of claims on the server behind a client set, for
// references to claims. It changes with the server; it is v1 for a server without claims.
func ClaimVersion(client kubernetes.Interface) func() string {
	served := Of(client)
	return func() string {
		if served == nil || served.Version(claimResource) == None {
			return V1.groupVersion()
		}
		return served.Version(claimResource).groupVersion()
	}
}
