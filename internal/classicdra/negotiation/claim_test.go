package negotiation

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
)

func TestIsClassic(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fields conversion.AlphaClaim
		want   bool
		err    string
	}{
		"v1":                     {},
		"by controller":          {fields: conversion.AlphaClaim{Allocator: conversion.ByController, Classes: []string{"missing"}}, want: true},
		"class says controller":  {fields: conversion.AlphaClaim{Allocator: conversion.ByClass, Classes: []string{"gpu"}}, want: true},
		"class says structured":  {fields: conversion.AlphaClaim{Allocator: conversion.ByClass, Classes: []string{"structured"}}},
		"class is missing":       {fields: conversion.AlphaClaim{Allocator: conversion.ByClass, Classes: []string{"missing"}}, err: "resource class missing does not exist"},
		"structured has classes": {fields: conversion.AlphaClaim{Classes: []string{"gpu"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := IsClassic(claim("c", with(test.fields)), twoClasses)
			require.Equal(t, test.want, got)
			if test.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.err)
			}
		})
	}
}

func TestClaimsThatNoNodeCanHelp(t *testing.T) {
	t.Parallel()
	controller := conversion.AlphaClaim{Allocator: conversion.ByController, Classes: []string{"gpu"}}
	many := make([]string, ReservedForMaxSize)
	for i := range many {
		many[i] = fmt.Sprintf("other-%d", i)
	}
	change := func(edit func(*conversion.AlphaClaim)) func(*resourceapi.ResourceClaim) {
		fields := controller
		edit(&fields)
		return with(fields)
	}
	for name, test := range map[string]struct {
		claim *resourceapi.ResourceClaim
		want  string // "": no reason
	}{
		"waits for its first consumer": {claim: claim("c", with(controller))},
		"immediate":                    {claim: claim("c", change(func(f *conversion.AlphaClaim) { f.Immediate = true })), want: "without waiting for pods"},
		"immediate and allocated":      {claim: claim("c", change(func(f *conversion.AlphaClaim) { f.Immediate = true }), allocatedIn(""))},
		"deallocation requested": {
			claim: claim("c", change(func(f *conversion.AlphaClaim) { f.DeallocationRequested = true }), allocatedIn(""), usedBy("me")),
			want:  "about to be deallocated",
		},
		"class missing, by controller": {
			claim: claim("c", change(func(f *conversion.AlphaClaim) { f.Controller, f.Classes = "d.example.com", []string{"missing"} })),
			want:  "device class missing does not exist",
		},
		"class missing":        {claim: claim("c", change(func(f *conversion.AlphaClaim) { f.Classes = []string{"gpu", "missing"} })), want: "resource class missing does not exist"},
		"allocated, no class":  {claim: claim("c", change(func(f *conversion.AlphaClaim) { f.Classes = []string{"missing"} }), allocatedIn(""))},
		"shared":               {claim: claim("c", with(controller), allocatedIn(""), usedBy("other"))},
		"exclusive, unused":    {claim: claim("c", change(func(f *conversion.AlphaClaim) { f.Exclusive = true }), allocatedIn(""))},
		"exclusive, used":      {claim: claim("c", change(func(f *conversion.AlphaClaim) { f.Exclusive = true }), allocatedIn(""), usedBy("other")), want: "in use by other and cannot be shared"},
		"exclusive, used here": {claim: claim("c", change(func(f *conversion.AlphaClaim) { f.Exclusive = true }), allocatedIn(""), usedBy("me"))},
		"full":                 {claim: claim("c", with(controller), allocatedIn(""), usedBy(many...)), want: "reserved for 32 pods (the limit)"},
		"full, with this pod":  {claim: claim("c", with(controller), allocatedIn(""), usedBy(append(many[1:], "me")...))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := test.claim.DeepCopy()
			_, err := NewClaim("uid-pod-me", "gpu", test.claim, twoClasses)
			require.Equal(t, before, test.claim)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, err, "claim default/c")
		})
	}
}

func TestDependsOn(t *testing.T) {
	t.Parallel()
	fields := conversion.AlphaClaim{Allocator: conversion.ByClass, Classes: []string{"gpu", "nic"}}
	require.True(t, DependsOn(claim("c", with(fields)), "nic"))
	require.False(t, DependsOn(claim("c", with(fields)), "other"))
	require.False(t, DependsOn(claim("c", with(fields), allocatedIn("")), "nic"))
	require.False(t, DependsOn(claim("c", with(conversion.AlphaClaim{Classes: []string{"nic"}})), "nic"))
}
