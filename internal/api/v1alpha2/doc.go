// Package v1alpha2 has the types of resource.k8s.io/v1alpha2, which API servers of Kubernetes 1.27 to 1.30 serve, and
// converts its objects to those of v1 (the hub).
//
// The types are complete: 1.30 was the last release with this version, so no server sends unknown fields. Structured
// parameters (KEP-4381) came with 1.30; before, a controller of the driver allocated all claims (classic mode).
//
// # Claims
//
// A claim of v1alpha2 does not contain its requests. It refers to a class and to parameters; both may be created, and
// change, long after the claim:
//
//	ResourceClaim ──► ResourceClass ──► ResourceClassParameters   filters
//	      └─────────────────────────► ResourceClaimParameters   requests, shareable
//
// So conversion has two steps. ToHub converts the server's claim without any other object: events keep their order
// and claims their resourceVersions, as watchers expect. The result has no requests that could be allocated (Spec).
// Parameters.Resolve adds the requests when the scheduler looks for devices. It needs class and parameters, and says
// which of them are missing. When one of them is created or changes, waiting pods are tried again.
//
// An allocation must contain more than devices: its driver, whether it can be shared, and the vendor's parameters.
// Resolve puts these into the configuration of the claim (Carrier), and every allocator copies that into the
// allocation. So an allocation is self-contained: it can be compared, written later, whatever happens to the
// parameters, and read back.
//
// # Slices
//
// Devices are identified by driver, node and name; the node's name serves as the pool's name. A driver may publish
// several slices for a node, and none of them has their number (inventory.AnyCount).
//
// Attributes become attributes and capacities with the kind as domain ("int/size"). Expressions stay in the language
// of this version, see package namedresources.
package v1alpha2
