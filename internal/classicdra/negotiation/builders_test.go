package negotiation

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// zone is the node label that claims and classes select by.
const zone = "example.com/zone"

func node(name, inZone string) *v1.Node { return builder.Node(name, zone, inZone) }

func claim(name string, edits ...func(*resourceapi.ResourceClaim)) *resourceapi.ResourceClaim {
	c := builder.Claim(name).Obj()
	for _, edit := range edits {
		edit(c)
	}
	return c
}

func with(fields conversion.AlphaClaim) func(*resourceapi.ResourceClaim) {
	return func(c *resourceapi.ResourceClaim) { conversion.SetAlphaClaim(c, fields) }
}

// allocatedIn allocates the claim for the nodes of a zone; "" for all nodes.
func allocatedIn(inZone string) func(*resourceapi.ResourceClaim) {
	return func(c *resourceapi.ResourceClaim) {
		c.Status.Allocation = &resourceapi.AllocationResult{}
		if inZone != "" {
			c.Status.Allocation.NodeSelector = builder.NodeSelector(zone, inZone)
		}
	}
}

func usedBy(pods ...string) func(*resourceapi.ResourceClaim) {
	return func(c *resourceapi.ResourceClaim) {
		for _, name := range pods {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: builder.Pod(name).UID})
		}
	}
}

type classes map[string]conversion.AlphaClass

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	fields, found := c[name]
	if !found {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "deviceclasses"}, name)
	}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	conversion.SetAlphaClass(class, fields)
	return class, nil
}

var twoClasses = classes{
	"gpu":        {},
	"gpu-in-a":   {SuitableNodes: builder.NodeSelector(zone, "a")},
	"structured": {Structured: true},
}

// said is a context in which drivers have named unsuitable nodes for claims.
func said(spec api.PodSchedulingContextSpec, statuses ...api.ClaimSchedulingStatus) *api.PodSchedulingContext {
	return &api.PodSchedulingContext{Spec: spec, Status: api.PodSchedulingContextStatus{ResourceClaims: statuses}}
}

func not(claim string, nodes ...string) api.ClaimSchedulingStatus {
	return api.ClaimSchedulingStatus{Name: claim, UnsuitableNodes: nodes}
}
