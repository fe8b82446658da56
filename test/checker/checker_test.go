package checker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// testCase describes a cluster and what the check finds in it.
type testCase struct {
	cluster cluster
	options Options
	// want lists "<rule> <object>", in order; wantTexts what the messages
	// together have to mention.
	want      []string
	wantTexts []string
	// wantWarnings is like want.
	wantWarnings []string
}

func (tc testCase) run(t *testing.T) {
	t.Parallel()
	var warnings []string
	tc.options.Warn = func(v Violation) { warnings = append(warnings, string(v.Rule)+" "+v.Object) }
	violations, err := Check(context.Background(), fake.NewClientset(tc.cluster.objects()...), tc.options)
	require.NoError(t, err)
	var got []string
	for _, violation := range violations {
		got = append(got, string(violation.Rule)+" "+violation.Object)
	}
	require.Equal(t, tc.want, got, Format(violations))
	require.Equal(t, tc.wantWarnings, warnings)
	for _, text := range tc.wantTexts {
		require.Contains(t, Format(violations), text)
	}
}

func runAll(t *testing.T, cases map[string]testCase) {
	t.Parallel()
	for name, tc := range cases {
		t.Run(name, tc.run)
	}
}

// healthyCluster has something for each rule to look at, and nothing to find.
func healthyCluster() cluster {
	partitions := newSlice("a-partitions", "node-a",
		builder.Device("part-0").Consumes("card", "memory", "40Gi"),
		builder.Device("part-1").Consumes("card", "memory", "40Gi"),
	)
	cards := newSlice("a-counters", "node-a")
	cards.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "card", Counters: counters("memory", "80Gi")}}
	return cluster{
		nodes: []*corev1.Node{newNode("node-a"), newNode("node-b")},
		slices: []*resourceapi.ResourceSlice{
			newSlice("a-plain", "node-a", builder.Device("gpu-0").Attr("rail", "0"), builder.Device("gpu-1").Attr("rail", "1")),
			newSlice("a-shared", "node-a", builder.Device("shared-0").Shared().Capacity("memory", "10Gi")),
			partitions, cards,
			newSlice("b-plain", "node-b", builder.Device("gpu-0").Attr("rail", "0"), builder.Device("gpu-1").Attr("rail", "0")),
		},
		claims: []*resourceapi.ResourceClaim{
			newClaim("pair", request("gpu", 2), distinct(driver+"/rail"), allocated("gpu", "node-a", "gpu-0", "gpu-1"), onNode("node-a"), reserved("one", "two")),
			newClaim("share-1", request("gpu", 1), allocated("gpu", "node-a", "shared-0"), share("s1", "4Gi"), reserved("one")),
			newClaim("share-2", request("gpu", 1), allocated("gpu", "node-a", "shared-0"), share("s2", "6Gi"), reserved("one")),
			newClaim("parts", request("gpu", 2), allocated("gpu", "node-a", "part-0", "part-1"), reserved("two")),
			newClaim("watch", request("gpu", 1), allocated("gpu", "node-a", "gpu-0"), adminAccess, reserved("two")),
			newClaim("three-gen", firstAvailable("gpu"), match(driver+"/rail"), allocated("gpu/small", "node-b", "gpu-0", "gpu-1"), generatedFor("three", "gpus"), reserved("three")),
			newClaim("waiting", request("gpu", 1)),
		},
		pods: []*corev1.Pod{
			newPod("one", boundTo("node-a"), uses("pair"), uses("share-1"), uses("share-2")),
			newPod("two", boundTo("node-a"), uses("pair"), uses("parts"), uses("watch"), phase(corev1.PodRunning)),
			newPod("three", boundTo("node-b"), usesTemplate("gpus", "three-gen")),
			newPod("four", uses("waiting"), usesTemplate("gpus", "")),
			newPod("five", boundTo("node-b")),
		},
	}
}

func TestHealthyCluster(t *testing.T) {
	runAll(t, map[string]testCase{
		"busy":           {cluster: healthyCluster()},
		"settled":        {cluster: healthyCluster(), options: Options{Settled: true}},
		"strict devices": {cluster: healthyCluster(), options: Options{StrictDevices: true}},
		"empty cluster":  {options: Options{Settled: true, StrictDevices: true}},
	})
}

func TestListErrors(t *testing.T) {
	t.Parallel()
	for resource, text := range map[string]string{
		"pods": "list pods", "resourceclaims": "list resource claims", "resourceslices": "list resource slices", "nodes": "list nodes",
	} {
		client := fake.NewClientset()
		client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("no rights")
		})
		violations, err := Check(context.Background(), client, Options{})
		require.ErrorContains(t, err, text)
		require.ErrorContains(t, err, "no rights")
		require.Empty(t, violations)
	}
}

// The check must only read, and each kind of object once.
func TestReadsOnce(t *testing.T) {
	t.Parallel()
	c := healthyCluster()
	client := fake.NewClientset(c.objects()...)
	client.ClearActions()
	_, err := Check(context.Background(), client, Options{Settled: true})
	require.NoError(t, err)
	var actions []string
	for _, action := range client.Actions() {
		actions = append(actions, action.GetVerb()+" "+action.GetResource().Resource)
	}
	require.Equal(t, "list pods, list resourceclaims, list resourceslices, list nodes", strings.Join(actions, ", "))
}

func TestWaitSettled(t *testing.T) {
	t.Parallel()
	leftover := newClaim("old", request("gpu", 1), allocated("gpu", "node-a", "gpu-0"), generatedFor("gone", "gpus"))

	t.Run("controllers catch up", func(t *testing.T) {
		t.Parallel()
		client := fake.NewClientset()
		lists := 0
		client.PrependReactor("list", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
			lists++
			if lists == 1 {
				return true, &resourceapi.ResourceClaimList{Items: []resourceapi.ResourceClaim{*leftover}}, nil
			}
			return true, &resourceapi.ResourceClaimList{}, nil
		})
		violations, err := WaitSettled(context.Background(), client, Options{})
		require.NoError(t, err)
		require.Empty(t, violations)
		require.Equal(t, 2, lists)
	})
	t.Run("they never do", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(context.Background())
		client := fake.NewClientset(leftover)
		client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			cancel()
			return false, nil, nil
		})
		violations, err := WaitSettled(ctx, client, Options{})
		require.NoError(t, err)
		require.Len(t, violations, 1)
		require.Equal(t, AllocatedForNobody, violations[0].Rule)
	})
	t.Run("no check succeeds", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		client := fake.NewClientset()
		client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("no rights")
		})
		_, err := WaitSettled(ctx, client, Options{})
		require.ErrorContains(t, err, "no rights")
	})
}

func TestFormat(t *testing.T) {
	t.Parallel()
	require.Equal(t, "DeviceHeldTwice: device a: b\nDeviceMissing: claim c: d\n", Format([]Violation{
		{Rule: DeviceHeldTwice, Object: "device a", Message: "b"},
		{Rule: DeviceMissing, Object: "claim c", Message: "d"},
	}))
}
