package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// Pods that ask for devices by the name of an extended resource (KEP-5004).
func TestExtendedResources(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"explicit and implicit":                testExtendedNames,
		"containers":                           testExtendedContainers,
		"init containers":                      testExtendedInitContainers,
		"with a claim":                         testExtendedWithClaim,
		"device plugin beside devices":         testExtendedBesideDevicePlugin,
		"some by device plugin":                testExtendedPartlyByDevicePlugin,
		"reasons":                              testExtendedReasons,
		"woken by devices":                     testExtendedWoken,
		"woken by a class":                     testExtendedWokenByClass,
		"woken by a device plugin":             testExtendedWokenByDevicePlugin,
		"more pods than devices":               testExtendedBurst,
		"pods of a node that ends":             testExtendedPodEnds,
		"scored together with other resources": testExtendedScored,
	})
}

func testExtendedNames(t *testing.T) {
	s := newSpace(t, "extnames", 1)
	s.Devices(0, numbered(4)...)
	s.Create(s.namedClass(), s.extendedPod("explicit", s.explicit(), "2"), s.extendedPod("implicit", s.Implicit(), "1"))
	s.Running("explicit", "implicit")
	for pod, class := range map[string]string{"explicit": s.Name + "-named", "implicit": s.Name} {
		claim := s.onlyClaim(pod)
		require.Equal(t, class, claim.Spec.Devices.Requests[0].Exactly.DeviceClassName)
		require.Contains(t, claim.Finalizers, resourceapi.Finalizer)
		require.True(t, *claim.OwnerReferences[0].Controller)
	}
	require.Equal(t, map[string]int{"container-0-request-0": 2}, s.devicesByRequest("explicit"))
	require.Equal(t, map[string]int{"container-0-request-0": 1}, s.devicesByRequest("implicit"))
	require.Equal(t, []string{"main " + s.explicit() + ": container-0-request-0"}, s.mappings("explicit"))

	s.DeletePod("explicit")
	s.nothingMadeFor("explicit")
	require.Equal(t, 3, s.NothingLeaked())
}

func testExtendedContainers(t *testing.T) {
	s := newSpace(t, "extcontainers", 1)
	s.Devices(0, numbered(6)...)
	s.Create(s.namedClass())
	pod := s.extendedPod("several", s.Implicit(), "1", s.explicit(), "2", "cpu", "100m")
	pod.Spec.Containers = append(pod.Spec.Containers, asking("idle"), asking("second", s.explicit(), "3"))
	s.Create(pod)
	s.Running("several")
	s.onlyClaim("several")
	require.Equal(t, map[string]int{"container-0-request-1": 1, "container-0-request-2": 2, "container-2-request-0": 3}, s.devicesByRequest("several"))
	require.ElementsMatch(t, []string{
		"main " + s.Implicit() + ": container-0-request-1",
		"main " + s.explicit() + ": container-0-request-2",
		"second " + s.explicit() + ": container-2-request-0",
	}, s.mappings("several"))
}

func testExtendedInitContainers(t *testing.T) {
	s := newSpace(t, "extinit", 1)
	s.Devices(0, numbered(5)...)
	sidecar := asking("sidecar", s.Implicit(), "1")
	sidecar.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	pod := s.extendedPod("init", s.Implicit(), "2")
	pod.Spec.InitContainers = []corev1.Container{
		asking("first", s.Implicit(), "1"), sidecar, asking("second", s.Implicit(), "4"), asking("third", s.Implicit(), "3"),
	}
	s.Create(pod)
	// The sidecar has 1 and the main container 2. The second init container uses these two and
	// lacks 2, of which the third uses 1.
	s.Running("init")
	require.Equal(t, map[string]int{"container-1-request-0": 1, "container-2-request-0": 2, "container-4-request-0": 2}, s.devicesByRequest("init"))
	require.ElementsMatch(t, []string{
		"sidecar " + s.Implicit() + ": container-1-request-0", "main " + s.Implicit() + ": container-4-request-0",
		"first " + s.Implicit() + ": container-1-request-0",
		"second " + s.Implicit() + ": container-4-request-0", "second " + s.Implicit() + ": container-2-request-0",
		"third " + s.Implicit() + ": container-4-request-0", "third " + s.Implicit() + ": container-2-request-0",
	}, s.mappings("init"))
}

func testExtendedWithClaim(t *testing.T) {
	s := newSpace(t, "extclaim", 2)
	s.Devices(0, numbered(2)...)
	s.Devices(1, numbered(3)...)
	pod := s.extendedPod("both", s.Implicit(), "1")
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "claim", ResourceClaimName: ptr.To("claim")}}
	s.Create(builder.Claim("claim", s.Want(2)).Obj(), pod)
	s.Running("both")
	require.Equal(t, s.Node(1), s.LivePod("both").Spec.NodeName, "the only one with enough devices for both")
	require.Len(t, s.Results("both"), 3)
	s.onlyClaim("both")
}

// testExtendedBesideDevicePlugin: a node offers the resource by device plugin, others have
// devices for it. Both are used, and only where devices serve it is there a claim.
func testExtendedBesideDevicePlugin(t *testing.T) {
	s := newSpace(t, "extbeside", 2)
	s.Create(s.namedClass())
	s.Offer(0, s.explicit(), "2")
	s.Devices(1, numbered(2)...)
	byNode := map[string]int{}
	for i := range 4 {
		name := fmt.Sprintf("pod-%d", i)
		s.Create(s.extendedPod(name, s.explicit(), "1"))
		s.Running(name)
		pod := s.LivePod(name)
		byNode[pod.Spec.NodeName]++
		if pod.Spec.NodeName == s.Node(1) {
			s.onlyClaim(name)
			continue
		}
		require.Empty(t, s.madeFor(name))
		require.Nil(t, pod.Status.ExtendedResourceClaimStatus)
	}
	require.Equal(t, map[string]int{s.Node(0): 2, s.Node(1): 2}, byNode)
	s.Create(s.extendedPod("late", s.explicit(), "1"))
	s.Waiting("late", "1 Insufficient "+s.explicit(), "held by other claims")
}

// testExtendedPartlyByDevicePlugin: one of two resources comes from a device plugin.
func testExtendedPartlyByDevicePlugin(t *testing.T) {
	s := newSpace(t, "extpartly", 2)
	s.Create(s.namedClass())
	s.Offer(0, s.explicit(), "2")
	s.Devices(0, numbered(1)...)
	s.Create(s.extendedPod("both", s.explicit(), "2", s.Implicit(), "1"))
	s.Running("both")
	require.Equal(t, s.Node(0), s.LivePod("both").Spec.NodeName)
	require.Equal(t, []string{"main " + s.Implicit() + ": container-0-request-0"}, s.mappings("both"))
	require.Len(t, s.onlyClaim("both").Spec.Devices.Requests, 1)

	// What no class stands for has to be on the node.
	s.Devices(1, numbered(1)...)
	s.Create(s.extendedPod("unknown", s.Implicit(), "1", "example.com/"+s.Name+"-other", "1"))
	s.Waiting("unknown", "Insufficient example.com/"+s.Name+"-other")
	s.Offer(1, "example.com/"+s.Name+"-other", "1")
	s.RunningSoon("unknown")
	require.Equal(t, s.Node(1), s.LivePod("unknown").Spec.NodeName)
}

func testExtendedReasons(t *testing.T) {
	s := newSpace(t, "extreasons", 2)
	s.Devices(0, numbered(2)...)
	s.Create(s.extendedPod("three", s.Implicit(), "3"))
	s.Waiting("three", "extended resource "+s.Implicit()+" of container main: 2 devices match: 3 asked")
	s.Create(s.extendedPod("hundred", s.Implicit(), "100"))
	s.Waiting("hundred", "asks for 100 devices", "at most 32")
	many := s.extendedPod("many", s.Implicit(), "1")
	many.Spec.Containers = nil
	for i := range 33 {
		many.Spec.Containers = append(many.Spec.Containers, asking(fmt.Sprintf("c-%d", i), s.Implicit(), "1"))
	}
	s.Create(many)
	s.Waiting("many", "would take 33 requests for devices; a claim can have 32")
	for _, pod := range []string{"three", "hundred", "many"} {
		require.Empty(t, s.madeFor(pod), "nothing is created for pods that do not fit")
	}
}

func testExtendedWoken(t *testing.T) {
	s := newSpace(t, "extwoken", 2)
	s.Devices(0, numbered(2)...)
	s.Create(s.extendedPod("first", s.Implicit(), "2"))
	s.Running("first")
	s.Create(s.extendedPod("second", s.Implicit(), "2"))
	s.Waiting("second", "held by")
	s.DeletePod("first")
	s.RunningSoon("second")

	s.Create(s.extendedPod("third", s.Implicit(), "1"))
	s.Waiting("third", "held by")
	s.Devices(1, numbered(1)...)
	s.RunningSoon("third")
	require.Equal(t, s.Node(1), s.LivePod("third").Spec.NodeName)

	// Claims of other pods free devices as well, and are woken in turn.
	s.ClaimAndPod("claim", s.Want(1))
	s.Waiting("claim", "held by")
	s.DeletePod("third")
	s.RunningSoon("claim")
	s.Create(s.extendedPod("fourth", s.Implicit(), "1"))
	s.Waiting("fourth", "held by")
	s.DeletePod("claim")
	s.RunningSoon("fourth")
}

func testExtendedWokenByClass(t *testing.T) {
	s := newSpace(t, "extclass", 1)
	s.Devices(0, numbered(3)...)
	s.Create(s.extendedPod("early", s.explicit(), "1"))
	s.Waiting("early", "Insufficient "+s.explicit())
	both := s.extendedPod("both", s.explicit(), "1", s.Implicit(), "1")
	s.Create(both)
	s.Waiting("both", "Insufficient "+s.explicit())
	s.Create(s.namedClass())
	s.RunningSoon("early", "both")
	s.onlyClaim("early")
}

func testExtendedWokenByDevicePlugin(t *testing.T) {
	s := newSpace(t, "extplugin", 1)
	s.Create(s.extendedPod("pod", s.Implicit(), "1"))
	// Why there are none depends on whether other tests have devices for all nodes.
	s.Waiting("pod", "of container main: ")
	s.Offer(0, s.Implicit(), "1")
	s.RunningSoon("pod")
	require.Empty(t, s.madeFor("pod"))
}

// testExtendedBurst has many pods compete for the devices, some by claim: no device is
// allocated twice (kubernetes/kubernetes#136269), and every one is used.
func testExtendedBurst(t *testing.T) {
	const nodes, perNode, pods = 4, 8, 40
	s := newSpace(t, "extburst", nodes)
	for node := range nodes {
		s.Devices(node, numbered(perNode)...)
	}
	s.Create(builder.Claim("one", s.Want(1)).Template())
	for i := range pods {
		name := fmt.Sprintf("pod-%02d", i)
		if i%4 == 3 {
			s.Create(s.Pod(name, builder.FromTemplate("one")))
		} else {
			s.Create(s.extendedPod(name, s.Implicit(), "1"))
		}
	}
	holders := map[string]string{}
	s.Eventually("use all devices", func(context.Context) error {
		clear(holders)
		running := 0
		for _, pod := range s.Pods() {
			if pod.Spec.NodeName == "" {
				continue
			}
			if err := s.Runs(pod); err != nil {
				return err
			}
			running++
			for _, device := range s.DeviceNames(pod.Name) {
				require.Empty(t, holders[device], "device %s of pod %s", device, pod.Name)
				holders[device] = pod.Name
			}
		}
		if running != nodes*perNode {
			return fmt.Errorf("%d pods run", running)
		}
		return nil
	})
	require.Len(t, holders, nodes*perNode)
	for _, pod := range s.Pods() {
		require.LessOrEqual(t, len(s.madeFor(pod.Name)), 1)
	}
}

// testExtendedPodEnds: the claim goes with its pod, also if that is just being scheduled.
func testExtendedPodEnds(t *testing.T) {
	const pods = 20
	s := newSpace(t, "extends", 1)
	s.Devices(0, numbered(pods)...)
	for i := range pods {
		s.Create(s.extendedPod(fmt.Sprintf("pod-%02d", i), s.Implicit(), "1"))
	}
	for i := range pods {
		s.DeletePod(fmt.Sprintf("pod-%02d", i))
	}
	for i := range pods {
		s.Gone(fmt.Sprintf("pod-%02d", i))
		s.nothingMadeFor(fmt.Sprintf("pod-%02d", i))
	}
	require.Equal(t, pods, s.NothingLeaked())
}

// testExtendedScored: NodeResourcesFit scores nodes by the extended resource, with what
// this scheduler has allocated.
func testExtendedScored(t *testing.T) {
	const nodes, perNode = 3, 4
	s := newOwnSpace(t, "extscored", nodes)
	for node := range nodes {
		s.Devices(node, numbered(perNode)...)
	}
	s.StartScheduler(harness.SchedulerOptions{Change: func(config map[string]any) {
		profile := config["profiles"].([]any)[0].(map[string]any)
		// What devices cost would decide.
		profile["plugins"].(map[string]any)["score"] = map[string]any{"disabled": []any{map[string]any{"name": "Quartermaster"}}}
		arguments, _ := profile["pluginConfig"].([]any)
		profile["pluginConfig"] = append(arguments, map[string]any{
			"name": "NodeResourcesFit",
			"args": map[string]any{"scoringStrategy": map[string]any{
				"type":      "MostAllocated",
				"resources": []any{map[string]any{"name": s.Implicit(), "weight": 100}},
			}},
		})
	}})
	for i := range 2 * perNode {
		name := fmt.Sprintf("pod-%d", i)
		s.Create(s.extendedPod(name, s.Implicit(), "1"))
		s.Running(name)
	}
	byNode := map[string]int{}
	for _, pod := range s.Pods() {
		byNode[pod.Spec.NodeName]++
	}
	require.Len(t, byNode, 2, "nodes are filled one after the other: %v", byNode)
}
