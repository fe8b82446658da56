package negotiation

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
)

// ReservedForMaxSize is the limit of consumers of a claim in v1alpha2 and v1alpha3.
const ReservedForMaxSize = 32

// ClassLister has the device classes; in v1alpha2, these are the resource classes.
type ClassLister interface {
	Get(name string) (*resourceapi.DeviceClass, error)
}

// IsClassic reports whether a controller allocates a claim. It returns an error if that is unknown because the
// claim's class does not exist.
func IsClassic(claim *resourceapi.ResourceClaim, classes ClassLister) (bool, error) {
	fields := conversion.AlphaClaimOf(claim)
	if fields.Allocator != conversion.ByClass {
		return fields.Allocator == conversion.ByController, nil
	}
	for _, name := range fields.Classes {
		class, err := classOf(claim, name, classes)
		if err != nil {
			return false, err
		}
		if conversion.AlphaClassOf(class).Structured {
			return false, nil
		}
	}
	return true, nil
}

// DependsOn reports whether the creation or change of a class matters to a claim without allocation.
func DependsOn(claim *resourceapi.ResourceClaim, class string) bool {
	fields := conversion.AlphaClaimOf(claim)
	return claim.Status.Allocation == nil && fields.Allocator != conversion.ByScheduler && slices.Contains(fields.Classes, class)
}

// Claim is one claim of a pod.
type Claim struct {
	// Object is the latest known state. It is shared and read-only.
	Object *resourceapi.ResourceClaim
	// Reference is the pod's reference to the claim (pod.spec.resourceClaims[].name).
	Reference string
	fields    conversion.AlphaClaim
	// nodes are selectors that must all match: that of the allocation, or those of the classes.
	nodes []limit
}

// limit is a restriction of a claim to some nodes, with its origin.
type limit struct {
	nodes *nodeaffinity.NodeSelector
	class string // "" for the allocation
}

// NewClaim returns a claim of a pod. The error says why the pod cannot use any node at the moment, and what must
// happen first.
func NewClaim(pod types.UID, reference string, claim *resourceapi.ResourceClaim, classes ClassLister) (*Claim, error) {
	c := &Claim{Object: claim, Reference: reference, fields: conversion.AlphaClaimOf(claim)}
	switch {
	case c.fields.DeallocationRequested:
		return nil, fmt.Errorf("claim %s is about to be deallocated; waiting for its driver to do that", klog.KObj(claim))
	case c.Allocated():
		return c, c.checkAllocated(pod)
	case c.fields.Immediate:
		return nil, fmt.Errorf("claim %s is not allocated; waiting for its driver (which does that without waiting for pods: allocationMode Immediate)", klog.KObj(claim))
	default:
		return c, c.checkClasses(classes)
	}
}

// Allocated reports whether the claim has an allocation.
func (c *Claim) Allocated() bool { return c.Object.Status.Allocation != nil }

// nameWithDriver returns the claim's name, with its controller if the claim names it (v1alpha3). In v1alpha2, the
// class names the driver.
func (c *Claim) nameWithDriver() string {
	name := klog.KObj(c.Object).String()
	if c.fields.Controller != "" {
		name += " (" + c.fields.Controller + ")"
	}
	return name
}

func (c *Claim) checkAllocated(pod types.UID) error {
	claim, consumers := c.Object, c.Object.Status.ReservedFor
	if !write.IsReservedFor(claim, pod) {
		switch {
		case c.fields.Exclusive && len(consumers) > 0:
			return fmt.Errorf("claim %s is in use by %s and cannot be shared; waiting for its end", klog.KObj(claim), consumers[0].Name)
		case len(consumers) >= ReservedForMaxSize:
			return fmt.Errorf("claim %s is reserved for %d pods (the limit); waiting for one of them to end", klog.KObj(claim), len(consumers))
		}
	}
	if claim.Status.Allocation.NodeSelector == nil {
		return nil
	}
	nodes, err := nodeaffinity.NewNodeSelector(claim.Status.Allocation.NodeSelector)
	if err != nil {
		return fmt.Errorf("claim %s: the nodes of its allocation cannot be parsed; its driver has to allocate it again: %w", klog.KObj(claim), err)
	}
	c.nodes = []limit{{nodes: nodes}}
	return nil
}

func (c *Claim) checkClasses(classes ClassLister) error {
	for _, name := range c.fields.Classes {
		class, err := classOf(c.Object, name, classes)
		if err != nil {
			return err
		}
		suitable := conversion.AlphaClassOf(class).SuitableNodes
		if suitable == nil {
			continue
		}
		nodes, err := nodeaffinity.NewNodeSelector(suitable)
		if err != nil {
			return fmt.Errorf("claim %s: suitableNodes of class %s cannot be parsed; correct the class: %w", klog.KObj(c.Object), name, err)
		}
		c.nodes = append(c.nodes, limit{nodes: nodes, class: name})
	}
	return nil
}

// classOf looks up a class. Claims without a controller are those of v1alpha2, where the class is called a resource
// class.
func classOf(claim *resourceapi.ResourceClaim, name string, classes ClassLister) (*resourceapi.DeviceClass, error) {
	class, err := classes.Get(name)
	if err == nil && class != nil {
		return class, nil
	}
	kind := "device class"
	if conversion.AlphaClaimOf(claim).Controller == "" {
		kind = "resource class"
	}
	if err == nil || apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("claim %s: %s %s does not exist; waiting for it to be created", klog.KObj(claim), kind, name)
	}
	return nil, fmt.Errorf("claim %s: look up %s %s: %w", klog.KObj(claim), kind, name, err)
}

// errElsewhere means that a claim's allocation cannot be used on a node.
var errElsewhere = errors.New("is allocated on other nodes")

// check returns an error that says why the claim cannot be used on a node.
func (c *Claim) check(node *v1.Node, known *api.ClaimSchedulingStatus) error {
	for _, limit := range c.nodes {
		switch {
		case limit.nodes.Match(node):
		case limit.class == "":
			return fmt.Errorf("claim %s %w", klog.KObj(c.Object), errElsewhere)
		default:
			return fmt.Errorf("claim %s: class %s is not for this node (suitableNodes)", klog.KObj(c.Object), limit.class)
		}
	}
	if !c.Allocated() && known != nil && slices.Contains(known.UnsuitableNodes, node.Name) {
		return fmt.Errorf("claim %s cannot be allocated for this node (so its driver says in unsuitableNodes)", klog.KObj(c.Object))
	}
	return nil
}

// AllocatedFor reports whether the claim's allocation can be used on a node.
func (c *Claim) AllocatedFor(node *v1.Node) bool {
	return c.Allocated() && c.check(node, nil) == nil
}

// MayBeFreed reports whether the pod may ask the driver to deallocate the claim. Immediate claims would only be
// allocated again for any node.
func (c *Claim) MayBeFreed(pod types.UID) bool {
	return c.Allocated() && !c.fields.Immediate && onlyFor(c.Object.Status.ReservedFor, pod)
}

// onlyFor reports whether no other pod uses a claim.
func onlyFor(consumers []resourceapi.ResourceClaimConsumerReference, pod types.UID) bool {
	return !slices.ContainsFunc(consumers, func(c resourceapi.ResourceClaimConsumerReference) bool { return c.UID != pod })
}
