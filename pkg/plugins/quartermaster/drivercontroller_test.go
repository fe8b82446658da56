package quartermaster

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/internal/classicdra"
	"github.com/quartermaster-dra/quartermaster/internal/classicdra/negotiation"
	"github.com/quartermaster-dra/quartermaster/test/classictest"
)

// classicFixture is a fixture on a server of v1alpha3, whose claims may be allocated by
// controllers. The test is the controller.
type classicFixture struct {
	*fixture
	contexts *classictest.Server
}

func inClassicCluster(t *testing.T, objects []runtime.Object, test func(t *testing.T, f *classicFixture)) {
	t.Helper()
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		c := &classicFixture{fixture: f, contexts: classictest.NewServer()}
		c.enable()
		c.woken() // By what existed at the start.
		test(t, c)
	})
}

// enable makes the plugin know of the classic mode.
func (f *classicFixture) enable() {
	mode, err := classicdra.NewNegotiating(f.ctx, f.olderServers(), f.contexts, func(namespace string) negotiation.ClaimClient {
		return edgeClaims{f.server.client.ResourceV1().ResourceClaims(namespace), f.server}
	})
	require.NoError(f.t, err)
	f.support(mode)
	f.settle()
}

// allocateOn allocates a claim on a node, like a controller.
func (f *classicFixture) allocateOn(claim, node string) {
	f.changeClaim(claim, func(c *resourceapi.ResourceClaim) {
		c.Status.Allocation = &resourceapi.AllocationResult{}
		onNode(node)(c)
	})
	f.settle()
}

// answer writes a controller's answer about a claim that the pod refers to by name.
func (f *classicFixture) answer(pod, claim string, unsuitable ...string) {
	statuses := f.contexts.Stored(pod).Status.ResourceClaims
	f.contexts.Answer(pod, append(statuses, api.ClaimSchedulingStatus{Name: "by-name-" + claim, UnsuitableNodes: unsuitable})...)
	f.settle()
}

// woken returns the pods that were activated since the last call.
func (f *classicFixture) woken() []string {
	f.activator.mutex.Lock()
	defer f.activator.mutex.Unlock()
	names := f.activated
	f.activated = nil
	return names
}

// byController is a claim that a controller has to allocate.
func byController(name string, change ...func(*conversion.AlphaClaim)) *resourceapi.ResourceClaim {
	claim := gpus(name, 1).Obj()
	fields := conversion.AlphaClaim{Allocator: conversion.ByController, Classes: []string{"gpu"}}
	for _, edit := range change {
		edit(&fields)
	}
	conversion.SetAlphaClaim(claim, fields)
	return claim
}

func immediate(fields *conversion.AlphaClaim) { fields.Immediate = true }

func requested(fields *conversion.AlphaClaim) { fields.DeallocationRequested = true }

// edgeClaims converts claims as far as these tests need it: deallocationRequested is part of the status.
type edgeClaims struct {
	negotiation.ClaimClient
	server *server
}

// UpdateStatus implements classic.ClaimClient.
func (c edgeClaims) UpdateStatus(ctx context.Context, claim *resourceapi.ResourceClaim, o metav1.UpdateOptions) (*resourceapi.ResourceClaim, error) {
	fields := conversion.AlphaClaimOf(claim)
	updated, err := c.ClaimClient.UpdateStatus(ctx, claim, o)
	if err != nil || !fields.DeallocationRequested {
		return updated, err
	}
	c.server.changeClaim(claim.Name, func(claim *resourceapi.ResourceClaim) { conversion.SetAlphaClaim(claim, fields) })
	return c.server.claim(claim.Name), nil
}
