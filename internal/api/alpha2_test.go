package api

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha2"
)

// Package v1alpha2 has the tests of what is in claims; here it is about what they have
// in addition in the hub, on the way there and back.
func TestAlphaClaimsOfV1alpha2(t *testing.T) {
	t.Parallel()
	claim := func(change func(*v1alpha2.ResourceClaim)) *v1alpha2.ResourceClaim {
		c := &v1alpha2.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: map[string]string{"a": "b"}},
			Spec: v1alpha2.ResourceClaimSpec{ResourceClassName: "gpu", AllocationMode: v1alpha2.WaitForFirstConsumer}}
		change(c)
		return c
	}
	for name, tc := range map[string]struct {
		claim  *v1alpha2.ResourceClaim
		fields conversion.AlphaClaim
		limit  int
	}{
		"not allocated": {claim(func(*v1alpha2.ResourceClaim) {}), conversion.AlphaClaim{Allocator: conversion.ByClass, Classes: []string{"gpu"}}, 32},
		"immediate": {claim(func(c *v1alpha2.ResourceClaim) { c.Spec.AllocationMode = v1alpha2.Immediate }),
			conversion.AlphaClaim{Allocator: conversion.ByClass, Classes: []string{"gpu"}, Immediate: true}, 32},
		"allocated by a scheduler": {claim(func(c *v1alpha2.ResourceClaim) {
			c.Finalizers = []string{v1alpha2.Finalizer}
			c.Status.DriverName, c.Status.Allocation = "d", &v1alpha2.AllocationResult{Shareable: true}
		}), conversion.AlphaClaim{Classes: []string{"gpu"}}, 32},
		"allocated by a controller, for one, and not for long": {claim(func(c *v1alpha2.ResourceClaim) {
			c.Finalizers = []string{"d.example.com/protection"}
			c.Status.DriverName, c.Status.DeallocationRequested = "d", true
			c.Status.Allocation = &v1alpha2.AllocationResult{ResourceHandles: []v1alpha2.ResourceHandle{{DriverName: "d", Data: "x"}}}
		}), conversion.AlphaClaim{Allocator: conversion.ByController, Classes: []string{"gpu"}, Exclusive: true, DeallocationRequested: true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inHub, err := convert[resourceapi.ResourceClaim](tc.claim)
			require.NoError(t, err)
			require.Equal(t, tc.fields, conversion.AlphaClaimOf(inHub))
			require.Equal(t, tc.limit, V1alpha2.consumerLimit(inHub))
			back, err := convert[v1alpha2.ResourceClaim](inHub)
			require.NoError(t, err)
			requireEqual(t, tc.claim, back, "after the way to v1 and back")
			inHub.Status.Allocation = nil
			cleared, err := convert[v1alpha2.ResourceClaim](inHub)
			require.NoError(t, err)
			require.Empty(t, cleared.Status, "with the allocation goes what belongs to it")
		})
	}
}

func TestOtherObjectsOfV1alpha2(t *testing.T) {
	t.Parallel()
	roundTrip[v1alpha2.ResourceClaimTemplate, resourceapi.ResourceClaimTemplate](t)

	nodes := &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{}}}
	class := &v1alpha2.ResourceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, DriverName: "d", SuitableNodes: nodes, StructuredParameters: ptr.To(true)}
	hubClass, err := convert[resourceapi.DeviceClass](class)
	require.NoError(t, err)
	require.Equal(t, "gpu", hubClass.Name)
	require.Empty(t, hubClass.Spec, "requests have all that devices must match")
	require.Equal(t, conversion.AlphaClass{SuitableNodes: nodes, Structured: true}, conversion.AlphaClassOf(hubClass))
	_, err = convert[v1alpha2.ResourceClass](hubClass)
	require.ErrorContains(t, err, `convert *v1.DeviceClass to *v1alpha2.ResourceClass: asked to write "gpu" of deviceclasses; the API server has them in version v1alpha2: that version can only be read here; use a client for it`)

	slice := &v1alpha2.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, NodeName: "n", DriverName: "d"}
	hubSlice, err := convert[resourceapi.ResourceSlice](slice)
	require.NoError(t, err)
	require.Equal(t, "n", hubSlice.Spec.Pool.Name)
	_, err = convert[v1alpha2.ResourceSlice](hubSlice)
	require.ErrorContains(t, err, `asked to write "s" of resourceslices`)

	lists := &v1alpha.List[v1alpha2.ResourceClaim]{}
	lists.ResourceVersion = "7"
	lists.Items = []v1alpha2.ResourceClaim{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
	hubList, err := convertList[resourceapi.ResourceClaim, resourceapi.ResourceClaimList, v1alpha2.ResourceClaim](lists)
	require.NoError(t, err)
	require.Equal(t, "7", hubList.ResourceVersion)
	require.Equal(t, []string{"a", "b"}, []string{hubList.Items[0].Name, hubList.Items[1].Name})
}
