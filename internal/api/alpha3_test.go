package api

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha3"
)

// Nothing that a server has in v1alpha3 gets lost on the way to v1 and back.
func TestV1alpha3SurvivesTheHub(t *testing.T) {
	t.Parallel()
	roundTrip[v1alpha3.ResourceClaim, resourceapi.ResourceClaim](t)
	roundTrip[v1alpha3.ResourceClaimTemplate, resourceapi.ResourceClaimTemplate](t)
	roundTrip[v1alpha3.DeviceClass, resourceapi.DeviceClass](t)
	t.Run("ResourceSlice", func(t *testing.T) {
		t.Parallel()
		slice := filled[v1alpha3.ResourceSlice]()
		inHub, err := convert[resourceapi.ResourceSlice](slice)
		require.NoError(t, err)
		back, err := convert[v1alpha3.ResourceSlice](inHub)
		require.NoError(t, err)
		requireEqual(t, slice, back, "after the way to v1 and back")
	})
}

func TestGoldenV1alpha3(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"claim", "claim-alternatives"} {
		golden[resourceapi.ResourceClaim, v1alpha3.ResourceClaim](t, "v1alpha3/"+name)
	}
	golden[resourceapi.ResourceClaimTemplate, v1alpha3.ResourceClaimTemplate](t, "v1alpha3/template")
	golden[resourceapi.DeviceClass, v1alpha3.DeviceClass](t, "v1alpha3/class")
	for _, name := range []string{"slice", "slice-shared", "slice-everywhere", "slice-partitions"} {
		golden[resourceapi.ResourceSlice, v1alpha3.ResourceSlice](t, "v1alpha3/"+name)
	}
}

// The golden files have every field but these. Some are of 1.31, some of 1.33.
func TestGoldenV1alpha3IsComplete(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		// These came with v1.
		"spec.devices.requests.firstAvailable.capacity",
		"spec.devices.requests.firstAvailable.derivedAttributes",
		"status.devices.shareID",
	}, unset(readGolden[v1alpha3.ResourceClaim](t, "v1alpha3/claim.json"), readGolden[v1alpha3.ResourceClaim](t, "v1alpha3/claim-alternatives.json")))
	require.Empty(t, unset(readGolden[v1alpha3.DeviceClass](t, "v1alpha3/class.json")))
	require.Equal(t, []string{"spec.devices.basic.consumesCounters.compatibilityGroups"}, unset(readGolden[v1alpha3.ResourceSlice](t, "v1alpha3/slice.json"),
		readGolden[v1alpha3.ResourceSlice](t, "v1alpha3/slice-shared.json"),
		readGolden[v1alpha3.ResourceSlice](t, "v1alpha3/slice-everywhere.json"), readGolden[v1alpha3.ResourceSlice](t, "v1alpha3/slice-partitions.json")))
}

// v1alpha3 lacks these fields of v1. Writers must do without them.
func TestWhatV1alpha3CannotHold(t *testing.T) {
	t.Parallel()
	inHub := filled[resourceapi.ResourceClaim]()
	require.Equal(t, []string{
		"spec.devices.constraints.distinctAttribute",
		"spec.devices.requests.exactly.capacity",
		"spec.devices.requests.exactly.derivedAttributes",
		"status.allocation.allocationTimestamp",
		"status.allocation.devices.results.bindingConditions",
		"status.allocation.devices.results.bindingFailureConditions",
		"status.allocation.devices.results.consumedCapacity",
		"status.allocation.devices.results.shareID",
		"status.allocation.devices.results.skipNodeOperations",
	}, lost[resourceapi.ResourceClaim, v1alpha3.ResourceClaim](t))
	require.Empty(t, unset(inHub), "a filled object has everything")
	require.Equal(t, []string{"spec.extendedResourceName"}, lost[resourceapi.DeviceClass, v1alpha3.DeviceClass](t))
	require.Equal(t, []string{
		"spec.devices.allowMultipleAllocations",
		"spec.devices.attributes.bools",
		"spec.devices.attributes.ints",
		"spec.devices.attributes.strings",
		"spec.devices.attributes.versions",
		"spec.devices.bindingConditions",
		"spec.devices.bindingFailureConditions",
		"spec.devices.bindsToNode",
		"spec.devices.capacity.requestPolicy",
		"spec.devices.nodeAllocatableResources",
		"spec.partitionTypeAttribute",
		"spec.skipNodeOperations",
	}, lost[resourceapi.ResourceSlice, v1alpha3.ResourceSlice](t))
}

// What the hub knows about who takes care of a claim.
func TestAlphaClaimOfV1alpha3(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		claim string
		want  conversion.AlphaClaim
	}{
		"scheduler": {
			claim: `{"metadata": {"annotations": {"alpha.quartermaster/fields": "{\"allocator\":\"controller\"}"}}}`,
		},
		"scheduler has allocated": {
			claim: `{"status": {"allocation": {}}}`,
		},
		"scheduler has allocated, and somebody wants that undone": {
			claim: `{"status": {"allocation": {}, "deallocationRequested": true}}`,
			want:  conversion.AlphaClaim{DeallocationRequested: true},
		},
		"controller": {
			claim: `{"spec": {"controller": "c", "devices": {"requests": [{"deviceClassName": "a"}, {"deviceClassName": "b"}, {"deviceClassName": "a"}]}}}`,
			want:  conversion.AlphaClaim{Allocator: conversion.ByController, Controller: "c", Classes: []string{"a", "b"}},
		},
		"controller has allocated": {
			claim: `{"spec": {"controller": "c"}, "status": {"allocation": {"controller": "c"}}}`,
			want:  conversion.AlphaClaim{Allocator: conversion.ByController, Controller: "c", AllocatedBy: "c"},
		},
		"scheduler has allocated although there is a controller": {
			claim: `{"spec": {"controller": "c"}, "status": {"allocation": {}}}`,
			want:  conversion.AlphaClaim{Controller: "c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := &v1alpha3.ResourceClaim{}
			require.NoError(t, json.Unmarshal([]byte(tc.claim), claim))
			inHub, err := convert[resourceapi.ResourceClaim](claim)
			require.NoError(t, err)
			require.Equal(t, tc.want, conversion.AlphaClaimOf(inHub))
		})
	}
}

// A writer that clears an allocation does not know the fields that belong to it.
func TestDeallocationInV1alpha3(t *testing.T) {
	t.Parallel()
	claim := &v1alpha3.ResourceClaim{}
	require.NoError(t, json.Unmarshal([]byte(`{"status": {"allocation": {"controller": "c"}, "deallocationRequested": true}}`), claim))
	inHub, err := convert[resourceapi.ResourceClaim](claim)
	require.NoError(t, err)
	inHub.Status.Allocation = nil
	back, err := convert[v1alpha3.ResourceClaim](inHub)
	require.NoError(t, err)
	require.Equal(t, &v1alpha3.ResourceClaim{}, back)
}

// In 1.31, only the request says that access is administrative; 1.32 has it in the result.
func TestAdminAccessInV1alpha3(t *testing.T) {
	t.Parallel()
	claim := &v1alpha3.ResourceClaim{}
	require.NoError(t, json.Unmarshal([]byte(`{"spec": {"devices": {"requests": [{"name": "mine"}, {"name": "admin", "adminAccess": true}]}},
		"status": {"allocation": {"devices": {"results": [{"request": "mine"}, {"request": "admin"}, {"request": "unknown"}, {"request": "admin", "adminAccess": false}]}}}}`), claim))
	inHub, err := convert[resourceapi.ResourceClaim](claim)
	require.NoError(t, err)
	var admin []string
	for _, result := range inHub.Status.Allocation.Devices.Results {
		switch {
		case result.AdminAccess == nil:
			admin = append(admin, result.Request+": not set")
		case *result.AdminAccess:
			admin = append(admin, result.Request+": yes")
		default:
			admin = append(admin, result.Request+": no")
		}
	}
	require.Equal(t, []string{"mine: not set", "admin: yes", "unknown: not set", "admin: no"}, admin)
}

// A device of a type that v1alpha3 does not have must not be allocated.
func TestUnknownDevicesInV1alpha3(t *testing.T) {
	t.Parallel()
	slice := &v1alpha3.ResourceSlice{}
	require.NoError(t, json.Unmarshal([]byte(`{"spec": {"devices": [{"name": "a", "special": {}}, {"name": "b", "basic": {}}]}}`), slice))
	inHub, err := convert[resourceapi.ResourceSlice](slice)
	require.NoError(t, err)
	require.Equal(t, []resourceapi.Device{{Name: "b"}}, inHub.Spec.Devices)
}
