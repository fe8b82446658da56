package files

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

func read(t *testing.T, text string) *File {
	t.Helper()
	f, err := Read(strings.NewReader(text), "team")
	require.NoError(t, err)
	return f
}

// All kinds that make pods, and how many.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	const template = `template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}`
	for text, want := range map[string]int{
		`{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {nodeName: somewhere, containers: [{name: c, image: i}]}}`:            1,
		`{apiVersion: v1, kind: ReplicationController, metadata: {name: x}, spec: {replicas: 4, ` + template + `}}`:                   4,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, spec: {replicas: 3, ` + template + `}}`:                         3,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, spec: {` + template + `}}`:                                      1,
		`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: x}, spec: {replicas: 0, ` + template + `}}`:                         0,
		`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: x}, spec: {replicas: 2, ` + template + `}}`:                        2,
		`{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {parallelism: 5, completions: 3, ` + template + `}}`:            3,
		`{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {parallelism: 5, completions: 9, ` + template + `}}`:            5,
		`{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {` + template + `}}`:                                            1,
		`{apiVersion: batch/v1, kind: CronJob, metadata: {name: x}, spec: {jobTemplate: {spec: {parallelism: 2, ` + template + `}}}}`: 2,
	} {
		f := read(t, text)
		require.Len(t, f.Workloads, 1, text)
		pods := f.Workloads[0].Pods(0, nil)
		require.Len(t, pods, want, text)
		names := make(map[string]bool)
		for _, pod := range pods {
			names[pod.Name] = true
			require.Equal(t, "team", pod.Namespace)
			require.Empty(t, pod.Spec.NodeName, "there is to be a node for it")
			require.Equal(t, "c", pod.Spec.Containers[0].Name)
		}
		require.Len(t, names, want, "each has a name of its own")
		require.Len(t, f.Workloads[0].Pods(7, nil), 7, text)
		require.Empty(t, f.Warnings)
	}
}

// PodGroups are read in every version: one of 1.38 may be written as v1.
func TestVersionsOfPodGroups(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1alpha3", "v1beta1", "v1"} {
		f := read(t, `{apiVersion: scheduling.k8s.io/`+version+`, kind: PodGroup, metadata: {name: x}, spec: {schedulingPolicy: {gang: {minCount: 3}}}}`)
		require.Empty(t, f.Warnings, version)
		require.Len(t, f.Groups, 1, version)
		require.EqualValues(t, 3, f.Groups[0].Spec.SchedulingPolicy.Gang.MinCount, version)
	}
	f := read(t, `{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: x}, spec: {minMember: 3}}`)
	require.Empty(t, f.Groups, "of another API")
	require.Len(t, f.Warnings, 1)
}

// A DaemonSet has a pod on each node that it may run on, and that cannot go elsewhere.
func TestDaemonSet(t *testing.T) {
	t.Parallel()
	f := read(t, `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: x}, spec: {template: {spec: {nodeSelector: {gpu: "yes"}, containers: [{name: c, image: i}]}}}}`)
	cordoned, tainted := b.Node("cordoned", "gpu", "yes"), b.Node("tainted", "gpu", "yes")
	cordoned.Spec.Unschedulable, cordoned.Spec.Taints = true, []v1.Taint{{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}}
	tainted.Spec.Taints = []v1.Taint{{Key: "mine", Effect: v1.TaintEffectNoSchedule}}
	pods := f.Workloads[0].Pods(5, []*v1.Node{b.Node("a", "gpu", "yes"), b.Node("b"), cordoned, tainted})
	require.Len(t, pods, 2)
	require.Equal(t, []string{"x-a", "x-cordoned"}, []string{pods[0].Name, pods[1].Name})
	fits, err := whatif.New(whatif.Objects{Nodes: []*v1.Node{withRoom(b.Node("a", "gpu", "yes")), withRoom(b.Node("other", "gpu", "yes"))}}, whatif.Options{}).Fit(t.Context(), pods[0])
	require.NoError(t, err)
	require.Equal(t, "a", fits.Plans[0].Node)
	fits, err = whatif.New(whatif.Objects{Nodes: []*v1.Node{withRoom(b.Node("other", "gpu", "yes"))}}, whatif.Options{}).Fit(t.Context(), pods[0])
	require.NoError(t, err)
	require.Equal(t, whatif.DoesNotFit, fits.Verdict)
}

func withRoom(node *v1.Node) *v1.Node {
	node.Status.Allocatable = b.Resources("pods", "10")
	return node
}

func TestRead(t *testing.T) {
	t.Parallel()
	f := read(t, `# A comment.
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: c, namespace: own}
spec: {devices: {requests: [{name: r, deviceClassName: gpu, count: 2}]}}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: host}, status: {capacity: {cpu: "4"}}}
- {apiVersion: v1, kind: Secret, metadata: {name: s}}
- {apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {nodeName: host, containers: [{name: c, image: i}]}
`)
	require.Equal(t, int64(2), f.Objects.Claims[0].Spec.Devices.Requests[0].Exactly.Count)
	require.Equal(t, "own", f.Objects.Claims[0].Namespace)
	node := f.Objects.Nodes[0]
	require.Equal(t, []int64{4, 110}, []int64{node.Status.Allocatable.Cpu().Value(), node.Status.Allocatable.Pods().Value()})
	require.Equal(t, "host", node.Labels[v1.LabelHostname])
	require.Len(t, f.Objects.Classes, 1)
	require.Len(t, f.Objects.Pods, 1, "pods on nodes can be part of the world, too")
	require.Len(t, f.Warnings, 2)
	assert.Contains(t, f.Warnings[0], "ResourceClaim c is of resource.k8s.io/v1beta1, which servers only have if it is turned on")
	assert.Contains(t, f.Warnings[1], "Secret s (v1) is not looked at")

	for text, want := range map[string]string{
		"{":                                      "neither YAML nor JSON",
		"kind: Pod":                              "it has no kind or no apiVersion",
		"{apiversion: v1, kind: Pod}":            "capitals count); its fields are apiversion, kind",
		"kind: Pod\nkind: Pod":                   "already set in map",
		"{apiVersion: v1, kind: Node, spce: {}}": `unknown field "spce"`,
		"{apiVersion: v1, kind: Pod, metadata: {name: n}}":                                                                                                                                               "in YAML, y, n, yes, no, on and off are booleans",
		"{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}":                                                                                                              "an API server would refuse it: spec.containers[0].image: Required value",
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: -1}}":                                                                                                             "it asks for -1 pods",
		"{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: r}, spec: {groups: [{template: {spec: {containers: []}}}]}}":                                                                         "RayCluster r (ray.io/v1): it creates pods of spec.groups[0].template; this command does not know how many",
		"{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c}, spec: {spec: {}}}":                                                                                                   `unknown field "spec.spec"`,
		`{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: d, capacity: {requests: {m: "1e-999999999"}}}}]}}}`: "ResourceClaim c (resource.k8s.io/v1): read it",
		"{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: C}}":                                                                                                                       "an API server would refuse it: metadata.name: Invalid value",
		"- a":                                    "it is no object of the API",
		"{apiVersion: v1, kind: Pod, spec: [1]}": "read document 1: Pod  (v1): read it",
		"{apiVersion: v1, kind: List, items: [{kind: Pod}]}":                                             "item 1 of the list",
		"{apiVersion: resource.k8s.io/v1alpha2, kind: ResourceClaim, metadata: {name: c}}":               "write it as v1",
		"{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c}, spec: {devices: 1}}": "ResourceClaim c",
	} {
		_, err := Read(strings.NewReader(text), "team")
		require.ErrorContains(t, err, want, text)
	}
}

func TestImagined(t *testing.T) {
	t.Parallel()
	const text = `{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c}, spec: {devices: {requests: []}}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: t}, spec: {spec: {devices: {requests: []}}}}`
	f := read(t, text)
	workloads := f.Imagined(false)
	require.Len(t, workloads, 2)
	require.Equal(t, "t", *workloads[0].Pods(0, nil)[0].Spec.ResourceClaims[0].ResourceClaimTemplateName)
	require.Equal(t, "c", *workloads[1].Pods(0, nil)[0].Spec.ResourceClaims[0].ResourceClaimName)
	tainted := b.Node("tainted")
	tainted.Spec.Taints = []v1.Taint{{Key: "gpu", Effect: v1.TaintEffectNoSchedule}, {Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}}
	tolerations := workloads[1].Pods(0, []*v1.Node{tainted})[0].Spec.Tolerations
	require.Equal(t, []v1.Toleration{{Key: "gpu", Operator: v1.TolerationOpExists}}, tolerations, "not those that are cordoned")
	workloads = f.Imagined(true)
	require.Len(t, workloads, 2)
	require.Equal(t, "like-c", *workloads[1].Pods(2, nil)[1].Spec.ResourceClaims[0].ResourceClaimTemplateName)
	require.Equal(t, "like-c", f.Objects.Templates[1].Name)
}

// Sets of sets of pods: each makes as many as its parts say together.
func TestSets(t *testing.T) {
	t.Parallel()
	const template = `template: {spec: {containers: [{name: c, image: i}]}}`
	for text, want := range map[string][]int{
		`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: x}, spec: {replicatedJobs: [
			{name: a, replicas: 2, template: {spec: {parallelism: 4, completions: 3, ` + template + `}}}, {name: b, template: {spec: {` + template + `}}}]}}`: {6, 1},
		`{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: x}, spec: {replicas: 2, leaderWorkerTemplate: {size: 4,
			leaderTemplate: {spec: {containers: [{name: c, image: i}]}}, workerTemplate: {spec: {containers: [{name: c, image: i}]}}}}}`: {2, 6},
		`{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: x}, spec: {leaderWorkerTemplate: {size: 3,
			workerTemplate: {spec: {containers: [{name: c, image: i}]}}}}}`: {3},
	} {
		f := read(t, text)
		var counts []int
		names := make(map[string]bool)
		for i := range f.Workloads {
			pods := f.Workloads[i].Pods(0, nil)
			counts = append(counts, len(pods))
			for _, pod := range pods {
				require.False(t, names[pod.Name], "each has a name of its own")
				names[pod.Name] = true
			}
		}
		require.Equal(t, want, counts, text)
	}
	for text, want := range map[string]string{
		`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: x}, spec: {replicatedJobs: [{name: a, template: {spec: {template: {spec: {
			containers: [{name: c, image: i, resources: {requests: {cpu: "1e-999999999"}}}]}}}}}]}}`: "read it",
		`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: x}, spec: {replicatedJobs: [{name: a, template: {spec: {paralelism: 4}}}]}}`: `spec.replicatedJobs[0].template: unknown field "spec.paralelism"`,
		`{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: x}, spec: {leaderWorkerTemplate: {size: 3}}}`:                    "spec.leaderWorkerTemplate.workerTemplate is missing",
	} {
		_, err := Read(strings.NewReader(text), "team")
		require.ErrorContains(t, err, want)
	}
}

func TestCopies(t *testing.T) {
	t.Parallel()
	pooled := b.Slice("counters").InPool("n", 1, 2).Modify(func(s *resourceapi.ResourceSlice) {
		s.Spec.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{"n", "elsewhere"}}},
		}}}
	}).Obj()
	o := whatif.Objects{
		Nodes: []*v1.Node{b.Node("n")},
		Slices: []*resourceapi.ResourceSlice{
			b.Slice("s").InPool("n", 1, 2).OnNode("n").Devices(b.Device("gpu")).Obj(), pooled, b.Slice("fabric").OnAllNodes().Devices(b.Device("nic")).Obj(),
		},
	}
	nobody := func(string) bool { return false }
	one, err := Copies(o, 1, nobody)
	require.NoError(t, err)
	require.Equal(t, o, one)

	two, err := Copies(o, 2, nobody)
	require.NoError(t, err)
	require.Equal(t, []string{"n-1", "n-2"}, []string{two.Nodes[0].Name, two.Nodes[1].Labels[v1.LabelHostname]})
	var slices []string
	for _, slice := range two.Slices {
		slices = append(slices, slice.Name+" in "+slice.Spec.Pool.Name+" on "+ptr.Deref(slice.Spec.NodeName, ""))
	}
	require.Equal(t, []string{"fabric in fabric on ", "s-1 in n-1 on n-1", "counters-1 in n-1 on ", "s-2 in n-2 on n-2", "counters-2 in n-2 on "}, slices)
	require.Equal(t, []string{"n-2", "elsewhere"}, two.Slices[4].Spec.NodeSelector.NodeSelectorTerms[0].MatchFields[0].Values)
	require.Equal(t, "n", *o.Slices[0].Spec.NodeName, "what was read is not changed")

	o.Nodes = nil
	_, err = Copies(o, 1, nobody)
	require.ErrorContains(t, err, "add the Node")
	_, err = Copies(o, 1, func(string) bool { return true })
	require.NoError(t, err)
}
