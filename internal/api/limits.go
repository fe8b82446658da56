package api

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha2"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha3"
)

// StoresExtendedResources reports whether the server may be able to record in a pod's status which claim serves its
// extended resources (KEP-5004, status.extendedResourceClaimStatus). Servers before 1.34, which do not have claims in
// v1, drop that field without an error, and the kubelet would never learn of the devices. Later servers have a feature
// gate for it, which clients cannot see.
func (s *Served) StoresExtendedResources() bool {
	return s == nil || s.Version(claimResource) == V1
}

// NoClaims returns why no claim can exist, nil if claims can exist. It is for existing pods with claims: while its
// feature gate is off, kube-apiserver drops claims only from new pods.
func (s *Served) NoClaims() error {
	if s == nil || s.Version(claimResource) != None {
		return nil
	}
	return newNotServed(claimResource)
}

// ConsumerLimit returns the limit of entries in a claim's status.reservedFor.
func (s *Served) ConsumerLimit(claim *resourceapi.ResourceClaim) int {
	if s == nil {
		return resourceapi.ResourceClaimReservedForMaxSize
	}
	return s.Version(claimResource).consumerLimit(claim)
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

// ClaimVersion returns the apiVersion of claims, for references to claims. It is v1 for a server without claims.
func (s *Served) ClaimVersion() string {
	if s == nil || s.Version(claimResource) == None {
		return V1.groupVersion()
	}
	return s.Version(claimResource).groupVersion()
}
