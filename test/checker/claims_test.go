package checker

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// oneClaim returns a cluster with sixty devices and one claim. The devices have
// attributes: even ones rail "even", odd ones "odd", a serial number, and all but
// gpu-9 a list of links.
func oneClaim(builders ...claimBuilder) cluster {
	devices := []*builder.DeviceBuilder{builder.Device("shared").Shared().Capacity("memory", "10Gi")}
	for i := range 60 {
		device := builder.Device(fmt.Sprintf("gpu-%d", i)).
			Attr("rail", [...]string{"even", "odd"}[i%2]).
			Attr("other.example.com/serial", i)
		if i != 9 {
			device.Attr("links", resourceapi.DeviceAttribute{StringValues: []string{fmt.Sprintf("l%d", i), fmt.Sprintf("l%d", i+1)}})
		}
		devices = append(devices, device)
	}
	return cluster{
		slices: []*resourceapi.ResourceSlice{newSlice("a", "node-a", devices...)},
		claims: []*resourceapi.ResourceClaim{newClaim("x", builders...)},
	}
}

func gpus(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("gpu-%d", i))
	}
	return names
}

func TestProtection(t *testing.T) {
	withoutFinalizer := func(claim *resourceapi.ResourceClaim) { claim.Finalizers = []string{"example.com/other"} }
	runAll(t, map[string]testCase{
		"allocated":     {cluster: oneClaim(request("gpu", 1), allocated("gpu", "node-a", "gpu-0"))},
		"not allocated": {cluster: oneClaim(request("gpu", 1), withoutFinalizer)},
		"allocated without finalizer": {
			cluster: oneClaim(request("gpu", 1), allocated("gpu", "node-a", "gpu-0"), withoutFinalizer),
			want:    []string{"FinalizerMissing claim train/x"},
		},
		"allocated by a controller": {
			// With what it takes for enough, too.
			cluster: oneClaim(request("gpu", 1), request("other", 1), allocated("gpu", "node-a", "gpu-0"), withoutFinalizer, byController),
		},
	})
}

// byController makes the claim one that a controller of its driver allocates.
func byController(claim *resourceapi.ResourceClaim) {
	conversion.SetAlphaClaim(claim, conversion.AlphaClaim{Allocator: conversion.ByController})
}

func TestRequests(t *testing.T) {
	all := lastExactly(func(exactly *resourceapi.ExactDeviceRequest) {
		exactly.AllocationMode, exactly.Count = resourceapi.DeviceAllocationModeAll, 0
	})
	wantsMemory := lastExactly(func(exactly *resourceapi.ExactDeviceRequest) {
		exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("4Gi")}}
	})
	wantsAdmin := lastExactly(func(exactly *resourceapi.ExactDeviceRequest) { exactly.AdminAccess = ptr.To(true) })
	getsAdmin := lastResult(func(result *resourceapi.DeviceRequestAllocationResult) { result.AdminAccess = ptr.To(true) })
	const violation = "RequestNotSatisfied claim train/x"
	runAll(t, map[string]testCase{
		"as many as requested": {cluster: oneClaim(request("gpu", 3), allocated("gpu", "node-a", gpus(3)...))},
		"default count":        {cluster: oneClaim(request("gpu", 0), allocated("gpu", "node-a", "gpu-0"))},
		"too few": {
			cluster:   oneClaim(request("gpu", 3), allocated("gpu", "node-a", gpus(2)...)),
			want:      []string{violation},
			wantTexts: []string{"request gpu asks for 3 devices, but 2"},
		},
		"too many": {
			cluster: oneClaim(request("gpu", 1), allocated("gpu", "node-a", gpus(2)...)),
			want:    []string{violation},
		},
		"one request without devices": {
			cluster:   oneClaim(request("gpu", 1), request("nic", 1), allocated("gpu", "node-a", "gpu-0")),
			want:      []string{violation},
			wantTexts: []string{"request nic"},
		},
		"unknown request": {
			cluster:   oneClaim(request("gpu", 1), allocated("gpu", "node-a", "gpu-0"), allocated("nic", "node-a", "gpu-1")),
			want:      []string{violation},
			wantTexts: []string{`"nic"`},
		},
		"subrequest of an exact request": {
			cluster: oneClaim(request("gpu", 1), allocated("gpu", "node-a", "gpu-0"), allocated("gpu/large", "node-a", "gpu-1")),
			want:    []string{violation},
		},
		"mode All": {cluster: oneClaim(request("gpu", 1), all, allocated("gpu", "node-a", gpus(5)...))},
		"mode All without devices": {
			cluster: oneClaim(request("gpu", 1), all, allocated("gpu", "node-a")),
			want:    []string{violation},
		},
		"first subrequest":  {cluster: oneClaim(firstAvailable("gpu"), allocated("gpu/large", "node-a", "gpu-0"))},
		"second subrequest": {cluster: oneClaim(firstAvailable("gpu"), allocated("gpu/small", "node-a", gpus(2)...))},
		"second subrequest, too few": {
			cluster:   oneClaim(firstAvailable("gpu"), allocated("gpu/small", "node-a", gpus(1)...)),
			want:      []string{violation},
			wantTexts: []string{"gpu/small asks for 2"},
		},
		"both subrequests": {
			cluster:   oneClaim(firstAvailable("gpu"), allocated("gpu/large", "node-a", "gpu-2"), allocated("gpu/small", "node-a", gpus(2)...)),
			want:      []string{violation},
			wantTexts: []string{"gpu/large and gpu/small"},
		},
		"parent instead of a subrequest": {
			cluster: oneClaim(firstAvailable("gpu"), allocated("gpu", "node-a", "gpu-0")),
			want:    []string{violation, violation},
		},
		"admin access that was not requested": {
			cluster: oneClaim(request("gpu", 1), allocated("gpu", "node-a", "gpu-0"), getsAdmin),
			want:    []string{violation},
		},
		"admin access that was requested but not given": {
			cluster: oneClaim(request("gpu", 1), wantsAdmin, allocated("gpu", "node-a", "gpu-0")),
			want:    []string{violation},
		},
		"share rounded up": {cluster: oneClaim(request("gpu", 1), wantsMemory, allocated("gpu", "node-a", "shared"), share("s1", "5Gi"))},
		"share too small": {
			cluster:   oneClaim(request("gpu", 1), wantsMemory, allocated("gpu", "node-a", "shared"), share("s1", "3Gi")),
			want:      []string{violation},
			wantTexts: []string{"4Gi of memory", "3Gi"},
		},
		"exclusive device with requested capacity": {cluster: oneClaim(request("gpu", 1), wantsMemory, allocated("gpu", "node-a", "gpu-0"))},
		"32 devices": {cluster: oneClaim(request("gpu", 32), allocated("gpu", "node-a", gpus(32)...))},
		"33 devices": {
			cluster: oneClaim(request("gpu", 33), allocated("gpu", "node-a", gpus(33)...)),
			want:    []string{"TooManyResults claim train/x"},
		},
	})
}

func TestConstraints(t *testing.T) {
	derived := lastExactly(func(exactly *resourceapi.ExactDeviceRequest) {
		exactly.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{Name: driver + "/rail", Expression: `"same"`}}
	})
	const violation = "ConstraintViolated claim train/x"
	pair := func(a, b string) claimBuilder { return allocated("gpu", "node-a", a, b) }
	runAll(t, map[string]testCase{
		"match":               {cluster: oneClaim(request("gpu", 2), match(driver+"/rail"), pair("gpu-0", "gpu-2"))},
		"match, one device":   {cluster: oneClaim(request("gpu", 1), match(driver+"/rail"), allocated("gpu", "node-a", "gpu-0"))},
		"match, full name":    {cluster: oneClaim(request("gpu", 1), match("other.example.com/serial"), allocated("gpu", "node-a", "gpu-0"))},
		"match, list":         {cluster: oneClaim(request("gpu", 2), match(driver+"/links"), pair("gpu-0", "gpu-1"))},
		"distinct":            {cluster: oneClaim(request("gpu", 2), distinct(driver+"/rail"), pair("gpu-0", "gpu-1"))},
		"distinct, list":      {cluster: oneClaim(request("gpu", 2), distinct(driver+"/links"), pair("gpu-0", "gpu-2"))},
		"distinct, full name": {cluster: oneClaim(request("gpu", 2), distinct("other.example.com/serial"), pair("gpu-0", "gpu-2"))},
		"match violated": {
			cluster:   oneClaim(request("gpu", 2), match(driver+"/rail"), pair("gpu-0", "gpu-1")),
			want:      []string{violation},
			wantTexts: []string{"constraint #0", "gpu-0 has string even", "gpu-1 has string odd"},
		},
		"match violated, list without common value": {
			// Neighbours have a link in common, but there is none in all three.
			cluster: oneClaim(request("gpu", 3), match(driver+"/links"), allocated("gpu", "node-a", gpus(3)...)),
			want:    []string{violation},
		},
		"distinct violated": {
			cluster:   oneClaim(request("gpu", 2), distinct(driver+"/rail"), pair("gpu-0", "gpu-2")),
			want:      []string{violation},
			wantTexts: []string{"differ in gpu.example.com/rail"},
		},
		"distinct violated, list": {
			cluster: oneClaim(request("gpu", 2), distinct(driver+"/links"), pair("gpu-0", "gpu-1")),
			want:    []string{violation},
		},
		"match without attribute": {
			cluster: oneClaim(request("gpu", 1), match(driver+"/links"), allocated("gpu", "node-a", "gpu-9")),
			want:    []string{violation},
		},
		"distinct without attribute": {
			cluster: oneClaim(request("gpu", 1), distinct(driver+"/links"), allocated("gpu", "node-a", "gpu-9")),
			want:    []string{violation},
		},
		"attribute of another domain": {
			cluster: oneClaim(request("gpu", 1), match("other.example.com/rail"), allocated("gpu", "node-a", "gpu-0")),
			want:    []string{violation},
		},
		"second of two constraints": {
			cluster:   oneClaim(request("gpu", 2), distinct(driver+"/links"), match(driver+"/rail"), pair("gpu-0", "gpu-3")),
			want:      []string{violation},
			wantTexts: []string{"constraint #1"},
		},
		"other requests are not affected": {
			cluster: oneClaim(request("gpu", 1), request("nic", 1), match(driver+"/rail", "gpu"),
				allocated("gpu", "node-a", "gpu-0"), allocated("nic", "node-a", "gpu-1")),
		},
		"named requests are": {
			cluster: oneClaim(request("gpu", 1), request("nic", 1), match(driver+"/rail", "gpu", "nic"),
				allocated("gpu", "node-a", "gpu-0"), allocated("nic", "node-a", "gpu-1")),
			want: []string{violation},
		},
		"parent name includes subrequests": {
			cluster: oneClaim(firstAvailable("gpu"), match(driver+"/rail", "gpu"), allocated("gpu/small", "node-a", "gpu-0", "gpu-1")),
			want:    []string{violation},
		},
		"name of the subrequest": {
			cluster: oneClaim(firstAvailable("gpu"), match(driver+"/rail", "gpu/small"), allocated("gpu/small", "node-a", "gpu-0", "gpu-1")),
			want:    []string{violation},
		},
		"name of another subrequest": {
			cluster: oneClaim(firstAvailable("gpu"), match(driver+"/rail", "gpu/large"), allocated("gpu/small", "node-a", "gpu-0", "gpu-1")),
		},
		"derived attributes cannot be verified": {
			cluster: oneClaim(request("gpu", 2), derived, match(driver+"/rail"), pair("gpu-0", "gpu-1")),
		},
		"device is not published anymore": {
			cluster:      oneClaim(request("gpu", 2), match(driver+"/rail"), pair("gpu-0", "gpu-99")),
			wantWarnings: []string{"DeviceMissing claim train/x"},
		},
	})
}

func TestConsumers(t *testing.T) {
	many := func(n int) claimBuilder {
		return func(claim *resourceapi.ResourceClaim) {
			for i := range n {
				reserved(fmt.Sprintf("pod-%d", i))(claim)
			}
		}
	}
	one := []claimBuilder{request("gpu", 1), allocated("gpu", "node-a", "gpu-0")}
	const violation = "ConsumersInvalid claim train/x"
	runAll(t, map[string]testCase{
		"256 consumers": {cluster: oneClaim(append(one, many(256))...)},
		"257 consumers": {
			cluster:   oneClaim(append(one, many(257))...),
			want:      []string{violation},
			wantTexts: []string{"257"},
		},
		"duplicate": {
			cluster:   oneClaim(append(one, reserved("a", "b", "a"))...),
			want:      []string{violation},
			wantTexts: []string{"a-uid"},
		},
		"not allocated": {
			cluster: oneClaim(request("gpu", 1), reserved("a")),
			want:    []string{violation},
		},
	})
}

func TestSettled(t *testing.T) {
	settled := Options{Settled: true}
	named := newClaim("x", request("gpu", 1), allocated("gpu", "node-a", "gpu-0"))
	reservedOne := newClaim("x", request("gpu", 1), allocated("gpu", "node-a", "gpu-0"), reserved("one"))
	generated := newClaim("x", request("gpu", 1), allocated("gpu", "node-a", "gpu-0"), generatedFor("one", "gpus"))
	replaced := newPod("one", boundTo("node-a"))
	replaced.UID = "replaced-uid"
	deleted := newPod("one", uses("x"))
	deleted.DeletionTimestamp, deleted.Finalizers = ptr.To(metav1.Now()), []string{"example.com/keep"}
	with := func(claim *resourceapi.ResourceClaim, pods ...*corev1.Pod) cluster {
		c := oneClaim()
		c.claims, c.pods = []*resourceapi.ResourceClaim{claim}, pods
		return c
	}
	group := reservedOne.DeepCopy()
	group.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{APIGroup: schedulingGroup, Resource: "podgroups", Name: "group", UID: "group-uid"}}
	foreign := reservedOne.DeepCopy()
	foreign.Status.ReservedFor[0].APIGroup = "batch.example.com"
	gone, nobody := []string{"ReservedForGonePod claim train/x"}, []string{"AllocatedForNobody claim train/x"}
	runAll(t, map[string]testCase{
		"reserved for a running pod":           {cluster: with(reservedOne, newPod("one", boundTo("node-a"), uses("x"))), options: settled},
		"reserved for a pod group":             {cluster: with(group), options: settled},
		"reserved for pods of another API":     {cluster: with(foreign), options: settled},
		"reserved for a missing pod":           {cluster: with(reservedOne), options: settled, want: gone},
		"reserved for a missing pod, for now":  {cluster: with(reservedOne)},
		"reserved for a replaced pod":          {cluster: with(reservedOne, replaced), options: settled, want: gone, wantTexts: []string{"replaced-uid"}},
		"reserved for a finished pod":          {cluster: with(reservedOne, newPod("one", boundTo("node-a"), uses("x"), phase(corev1.PodSucceeded))), options: settled, want: gone},
		"reserved for a deleted, unbound pod":  {cluster: with(reservedOne, deleted), options: settled, want: gone},
		"generated, waiting for its pod":       {cluster: with(generated, newPod("one", usesTemplate("gpus", "x"))), options: settled},
		"generated, pod is gone":               {cluster: with(generated), options: settled, want: nobody},
		"generated, pod is gone, for now":      {cluster: with(generated)},
		"generated, pod has finished":          {cluster: with(generated, newPod("one", boundTo("node-a"), usesTemplate("gpus", "x"), phase(corev1.PodFailed))), options: settled, want: nobody},
		"generated, name used by another pod":  {cluster: with(generated, newPod("two", usesTemplate("gpus", "x"))), options: settled, want: nobody},
		"by name, wanted by a waiting pod":     {cluster: with(named, newPod("one", uses("x"))), options: settled},
		"by name, not wanted":                  {cluster: with(named), options: settled, wantWarnings: nobody},
		"by name, wanted in another namespace": {cluster: with(named, inNamespace("eval", newPod("one", uses("x")))), options: settled, wantWarnings: nobody},
	})
}

func inNamespace(namespace string, pod *corev1.Pod) *corev1.Pod {
	pod.Namespace = namespace
	return pod
}
