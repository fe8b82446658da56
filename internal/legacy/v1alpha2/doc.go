// Package v1alpha2 has resource.k8s.io/v1alpha2 as the API servers of Kubernetes 1.27 to
// 1.30 serve it, and what it takes to treat its objects like those of v1 (the hub).
//
// The version is complete: 1.30 was the last release that has it, so no server sends
// fields that these types do not know. Structured parameters (KEP-4381) came with 1.30;
// before, a controller of the driver allocated all claims (classic mode).
//
// # Claims
//
// A claim of v1alpha2 does not say what it asks for. It refers to a class and to
// parameters; both may come, and change, long after the claim:
//
//	ResourceClaim ──► ResourceClass ──► ResourceClassParameters   filters
//	      └─────────────────────────► ResourceClaimParameters   requests, shareable
//
// So conversion comes in two steps. ToHub converts what the server has of a claim,
// without looking at anything else: events keep their order and claims keep their
// resourceVersions, as everybody relies on who follows claims. The result has no requests
// that could be allocated (Spec). Parameters.Resolve gives a claim its requests at the
// moment when devices are looked for. It needs class and parameters, and says which of
// them are missing. When one of them comes or changes, pods that wait are tried again.
//
// An allocation has to say more than which devices: who its driver is, whether it can be
// shared, and what parameters of the vendor belong to it. Resolve puts that into the
// configuration of the claim (Carrier), from where every allocator copies it into the
// allocation. So an allocation is a value in itself. It can be compared, and written
// later, whatever has become of the parameters, and it can be read back.
//
// # Slices
//
// Devices are known by driver, node and name; the name of the node serves as that of the
// pool. A driver may publish several slices for a node, and none of them says how many
// there are (inventory.AnyCount).
//
// Attributes become attributes and capacities with the kind as domain ("int/size"), and
// expressions remain in the language of this version, see package namedresources.
package v1alpha2
