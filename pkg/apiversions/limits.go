package apiversions

import "k8s.io/client-go/kubernetes"

// StoresExtendedResources reports whether the server behind a client set may be able to
// record in a pod's status which claim serves its extended resources (KEP-5004,
// status.extendedResourceClaimStatus). Servers before 1.34, which do not have claims in
// v1, drop that field without an error, and the kubelet would never learn of the devices.
// Later servers have a feature gate for it, which cannot be seen from outside.
func StoresExtendedResources(client kubernetes.Interface) bool {
	served := Of(client)
	return served == nil || served.Version(claimResource) == V1
}
