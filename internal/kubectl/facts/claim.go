package facts

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Claim is a ResourceClaim with its devices and consumers.
type Claim struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Allocated is set if the claim has an allocation, even one without devices.
	Allocated bool `json:"allocated"`
	// Since is the time of the allocation. Servers before Kubernetes 1.33 do not record it.
	Since    *metav1.Time `json:"since,omitempty"`
	Created  metav1.Time  `json:"created,omitzero"`
	Deleting bool         `json:"deleting,omitempty"`
	Devices  []Held       `json:"devices,omitempty"`
	// Consumers are the entries of status.reservedFor.
	Consumers []Consumer `json:"consumers,omitempty"`
	// Unused is set if the claim is allocated and no consumer that may still need it is known.
	Unused bool `json:"unused,omitempty"`
}

// Key returns namespace/name.
func (c *Claim) Key() string { return c.Namespace + "/" + c.Name }

// Held is a device in the allocation of a claim.
type Held struct {
	DeviceID `json:",inline"`
	Request  string `json:"request"`
	// AdminAccess is set if the device stays available to other claims (KEP-5018).
	AdminAccess bool `json:"adminAccess,omitempty"`
	// ShareID and Consumed are set for shares of a device (KEP-5075).
	ShareID  *types.UID                                      `json:"shareID,omitempty"`
	Consumed map[resourceapi.QualifiedName]resource.Quantity `json:"consumed,omitempty"`
	// Unpublished is set if the device is no longer published.
	Unpublished bool `json:"unpublished,omitempty"`
}

// Consumer is an object that a claim is reserved for.
type Consumer struct {
	// Kind is the resource of the consumer: "pods", or another one.
	Kind  string      `json:"kind"`
	Name  string      `json:"name"`
	UID   types.UID   `json:"uid"`
	Node  string      `json:"node,omitempty"`
	Phase v1.PodPhase `json:"phase,omitempty"`
	// Gone is set for pods that do not exist.
	Gone bool `json:"gone,omitempty"`
}

// Claims returns all claims by namespace and name, including those without an allocation.
func (f *Facts) Claims() []Claim { return append([]Claim(nil), f.claims...) }

// Claim returns a claim, nil if it does not exist. Callers must not change it.
func (f *Facts) Claim(namespace, name string) *Claim {
	if claim := f.snapshot.Claim(namespace, name); claim != nil {
		return f.byUID[claim.UID]
	}
	return nil
}

func (f *Facts) claim(claim *resourceapi.ResourceClaim) Claim {
	c := Claim{
		Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, Created: claim.CreationTimestamp,
		Deleting: claim.DeletionTimestamp != nil,
	}
	for i := range claim.Status.ReservedFor {
		c.Consumers = append(c.Consumers, f.consumer(claim.Namespace, &claim.Status.ReservedFor[i]))
	}
	allocation := claim.Status.Allocation
	if c.Allocated = allocation != nil; !c.Allocated {
		return c
	}
	c.Since = allocation.AllocationTimestamp
	for i := range allocation.Devices.Results {
		result := &allocation.Devices.Results[i]
		held := Held{
			DeviceID: idOf(result), Request: result.Request, AdminAccess: ptr.Deref(result.AdminAccess, false),
			ShareID: result.ShareID, Consumed: result.ConsumedCapacity,
		}
		if !f.unknown[slicesResource] {
			held.Unpublished = !isPublished(f.snapshot.Pool(held.pool()), held.Device)
		}
		c.Devices = append(c.Devices, held)
	}
	c.Unused = !f.isUsed(claim.Namespace, c.Consumers)
	return c
}

// consumer looks up the pod of a reservation. If pods could not be read, it reports no pod as gone.
func (f *Facts) consumer(namespace string, reference *resourceapi.ResourceClaimConsumerReference) Consumer {
	c := Consumer{Kind: reference.Resource, Name: reference.Name, UID: reference.UID}
	if reference.APIGroup != "" {
		c.Kind += "." + reference.APIGroup
	}
	if c.Kind != podsResource {
		return c
	}
	pod := f.snapshot.Pod(namespace, reference.Name)
	if pod == nil || pod.UID != reference.UID {
		c.Gone = !f.PodsUnknown()
		return c
	}
	c.Node, c.Phase = pod.Spec.NodeName, pod.Status.Phase
	return c
}

// isUsed reports whether any consumer may still need the claim. A PodGroup needs it while it has pods.
func (f *Facts) isUsed(namespace string, consumers []Consumer) bool {
	for i := range consumers {
		c := &consumers[i]
		switch c.Kind {
		case podsResource:
			if !c.Gone && c.Phase != v1.PodSucceeded && c.Phase != v1.PodFailed {
				return true
			}
		case "podgroups." + groupsAPI:
			if f.PodsUnknown() || len(f.groups[types.NamespacedName{Namespace: namespace, Name: c.Name}]) > 0 {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// groupsAPI is the API group of PodGroups (KEP-4671).
const groupsAPI = "scheduling.k8s.io"

// PodsOf returns the pods that a claim is reserved for, including the pods of PodGroups.
func (f *Facts) PodsOf(c *Claim) []*v1.Pod {
	var pods []*v1.Pod
	for i := range c.Consumers {
		consumer := &c.Consumers[i]
		if consumer.Kind == "podgroups."+groupsAPI {
			pods = append(pods, f.groups[types.NamespacedName{Namespace: c.Namespace, Name: consumer.Name}]...)
		} else if pod := f.snapshot.Pod(c.Namespace, consumer.Name); pod != nil && pod.UID == consumer.UID {
			pods = append(pods, pod)
		}
	}
	return pods
}

// ClaimsOf returns the existing claims of a pod, including those without an allocation.
func (f *Facts) ClaimsOf(pod *v1.Pod) []*Claim {
	var claims []*Claim
	for _, claim := range f.snapshot.ClaimsOf(pod) {
		claims = append(claims, f.byUID[claim.UID])
	}
	return claims
}
