package catalogue

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// wholeGangScenarios show PodGroups of scheduler-plugins. They need no feature gate, but the CustomResourceDefinition and
// the rights of manifests/pod-groups.
func wholeGangScenarios() []scenario.Scenario {
	return []scenario.Scenario{gangsCompete()}
}

// labeledGang returns a PodGroup of scheduler-plugins, and its pods, which must run together. Group and app have the
// same name.
func labeledGang(scenarioName, name string, pods int, claims []corev1.PodResourceClaim) (group runtime.Object, members []runtime.Object) {
	group = &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PodGroupSpec{MinMember: int32(pods)}}
	for index := range pods {
		members = append(members, builder.AppPod(fmt.Sprintf("%s-%d", name, index), name, onNodesOf(scenarioName, claims),
			func(pod *corev1.Pod) { pod.Labels[v1alpha1.PodGroupLabel] = name }))
	}
	return group, members
}

func gangsCompete() scenario.Scenario {
	const name, pods = "gangs-compete", 4
	first, ofFirst := labeledGang(name, "first", pods, builder.FromTemplate("one"))
	second, ofSecond := labeledGang(name, "second", pods, builder.FromTemplate("one"))
	return scenario.Scenario{
		Name:    name,
		Shows:   "Six GPUs are too few for two gangs of four: the second waits whole, with a reason that names the missing GPUs and their holder, and runs once the first is gone.",
		Cluster: gpuNodes(name, 3, 2),
		Steps: []scenario.Step{
			scenario.Create(builder.Claim("one", gpus(1)).Template(), first),
			scenario.Create(ofFirst...),
			scenario.Expect(scenario.Scheduled("first", pods, scenario.DevicesEach(1), scenario.NoDeviceTwice())),
			scenario.Create(second),
			scenario.Create(ofSecond...),
			// Two of them would fit, but none gets a device.
			scenario.Expect(
				scenario.Scheduled("first", pods, scenario.DevicesEach(1), scenario.NoDeviceTwice()),
				scenario.Waits("second", pods, scenario.Reason{Cause: groupTooLarge, Mentions: []string{
					"2 of 4 pods fit", "2 more devices of class " + gpuClass, "group " + name + "/first holds 4",
				}}),
			),
			scenario.Delete(ofFirst...),
			scenario.Deleted("first"),
			scenario.Expect(scenario.Scheduled("second", pods, scenario.DevicesEach(1), scenario.NoDeviceTwice())),
		},
	}
}
