package classicdra

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// byController is a claim that a controller has to allocate.
func byController() *resourceapi.ResourceClaim {
	claim := builder.Claim("c", builder.Request("gpu", "gpu")).Obj()
	conversion.SetAlphaClaim(claim, conversion.AlphaClaim{Allocator: conversion.ByController, Classes: []string{"gpu"}})
	return claim
}

// TestNewerServers have no mode, and everything stays as it is, whatever a claim looks like.
func TestNewerServers(t *testing.T) {
	t.Parallel()
	mode, err := For(context.Background(), fake.NewClientset(), Scheduler{})
	require.NoError(t, err)
	require.Nil(t, mode)
	pod, claims := builder.Pod("p"), []*resourceapi.ResourceClaim{byController()}
	others, attempt, status := mode.Split(pod, claims)
	require.True(t, status.IsSuccess())
	require.Equal(t, claims, others)
	require.Nil(t, attempt)
	require.False(t, mode.DependsOnController(claims))
	require.False(t, mode.DependsOnClass(pod, "gpu"))
	require.False(t, mode.Resolves())
	nodes, err := mode.SuitableNodes(claims[0])
	require.NoError(t, err)
	require.Nil(t, nodes)
}

// TestPodWithoutSuchClaims has no attempt, and nothing happens at any extension point.
func TestPodWithoutSuchClaims(t *testing.T) {
	t.Parallel()
	var attempt *Attempt
	require.NoError(t, attempt.Check(&v1.Node{}))
	attempt.SetFeasible([]fwk.NodeInfo{nil})
	require.Nil(t, attempt.Negotiate("n1", true))
	require.NoError(t, attempt.Reserve(context.Background()))
	attempt.Unreserve(context.Background())
	attempt.End()
	require.Nil(t, attempt.Free())
}

func TestDeallocationRequested(t *testing.T) {
	t.Parallel()
	claim := builder.Claim("c", builder.Request("gpu", "gpu")).Allocated("n1", "gpu-0")
	require.NoError(t, DeallocationRequested(claim))
	conversion.SetAlphaClaim(claim, conversion.AlphaClaim{DeallocationRequested: true})
	require.ErrorIs(t, DeallocationRequested(claim), errDeallocationRequested)
	require.ErrorContains(t, DeallocationRequested(claim), "claim default/c must not get new consumers")
}
