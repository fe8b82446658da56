package catalogue

import (
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/examples"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
	"github.com/quartermaster-dra/quartermaster/test/realslices"
)

// exampleComment matches the beginning of a file of examples: one line each for its purpose, the expected result and its needs.
var exampleComment = regexp.MustCompile(`\A# ([A-Z].*\.)\n# Expect: (.*\.)\n# Needs: (.*\.)\n`)

// quoted matches a quoted part of a waiting pod's reason in the second line.
var quoted = regexp.MustCompile(`"([^"]+)"`)

// example is a file of examples with the hardware to which the demo applies it and the expected result.
type example struct {
	// file is the name of the file without the ending.
	file     string
	hardware []exampleNode
	// expect holds once all objects exist except the pods, Deployments and Jobs named in later. The demo creates those
	// next, and then holds at the end.
	expect []scenario.Expectation
	later  []string
	then   []scenario.Expectation
}

// exampleNode is a node with the devices of files of package realslices.
type exampleNode struct {
	slices []string
	labels map[string]string
}

// with returns a node with the devices of files of package realslices.
func with(slices ...string) exampleNode { return exampleNode{slices: slices} }

// Examples returns a scenario for each file of the folder examples, made from the file: its objects as they are, in the
// scenario's namespace and on the scenario's nodes. They need AllFeatureGates and APIs.
func Examples() []scenario.Scenario {
	var scenarios []scenario.Scenario
	for _, e := range exampleRuns() {
		s, err := e.scenario()
		if err != nil {
			// The files are part of the program.
			panic(fmt.Sprintf("examples/%s.yaml: %v", e.file, err))
		}
		scenarios = append(scenarios, s)
	}
	return scenarios
}

// name returns the name of the scenario.
func (e example) name() string { return "example-" + e.file }

// node returns the name of a node of the scenario.
func (e example) node(index int) string { return scenario.NodeName(e.name(), index) }

func (e example) scenario() (scenario.Scenario, error) {
	text, err := fs.ReadFile(examples.Files, e.file+".yaml")
	if err != nil {
		return scenario.Scenario{}, err
	}
	comment := exampleComment.FindSubmatch(text)
	if comment == nil {
		return scenario.Scenario{}, fmt.Errorf("begin with three lines of comment: what it does, what to expect, what it needs")
	}
	objects, err := scenario.Decode(text)
	if err != nil {
		return scenario.Scenario{}, err
	}
	s := scenario.Scenario{Name: e.name(), Shows: string(comment[1]), Cluster: e.cluster()}
	first, later := e.place(&s, objects)
	quotes := quotesIn(string(comment[2]))
	s.Steps = []scenario.Step{scenario.Create(first...), scenario.Expect(withQuotes(e.expect, quotes)...)}
	if len(later) > 0 {
		s.Steps = append(s.Steps, scenario.Create(later...), scenario.Expect(withQuotes(e.then, quotes)...))
	}
	return s, nil
}

// cluster returns the nodes of the scenario, with their devices.
func (e example) cluster() (objects []runtime.Object) {
	for index, node := range e.hardware {
		made := fleet.Node(e.node(index), e.name(), node.labels)
		objects = append(objects, made)
		for _, file := range node.slices {
			for _, slice := range realslices.OnNode(file, e.node(index)) {
				objects = append(objects, slice)
				if slices.ContainsFunc(slice.Spec.Devices, takesOfNode) {
					made.Status.DeclaredFeatures = []string{countsDevices}
				}
			}
		}
	}
	return objects
}

// countsDevices is the gate with which devices take resources of their node (KEP-5517), and the feature that the kubelet declares then.
const countsDevices = "DRANodeAllocatableResources"

func takesOfNode(device resourceapi.Device) bool { return len(device.NodeAllocatableResources) > 0 }

// place keeps the pods of the file on the nodes of the scenario, and returns the objects to create first and later.
// Objects without a namespace exist from the start. The scenario's namespace has the labels of a namespace in the file,
// and takes its place.
func (e example) place(s *scenario.Scenario, objects []runtime.Object) (first, later []runtime.Object) {
	for _, object := range objects {
		if namespace, isNamespace := object.(*corev1.Namespace); isNamespace {
			s.NamespaceLabels = namespace.Labels
			continue
		}
		name, pod := podSpec(object)
		if pod != nil {
			e.keepHere(pod)
		}
		switch {
		case scenario.IsClusterScoped(object):
			s.Cluster = append(s.Cluster, object)
		case pod != nil && slices.Contains(e.later, name):
			later = append(later, object)
		default:
			first = append(first, object)
		}
	}
	return first, later
}

// podSpec returns the name of an object with pods and the spec of the pods, nil for other objects.
func podSpec(object runtime.Object) (string, *corev1.PodSpec) {
	switch object := object.(type) {
	case *corev1.Pod:
		return object.Name, &object.Spec
	case *appsv1.Deployment:
		return object.Name, &object.Spec.Template.Spec
	case *batchv1.Job:
		return object.Name, &object.Spec.Template.Spec
	}
	return "", nil
}

func (e example) keepHere(pod *corev1.PodSpec) {
	pod.NodeSelector = maps.Clone(pod.NodeSelector)
	if pod.NodeSelector == nil {
		pod.NodeSelector = map[string]string{}
	}
	pod.NodeSelector[fleet.NodePoolLabel] = e.name()
}

// quotesIn returns the parts of reasons that a comment quotes.
func quotesIn(comment string) (quotes []string) {
	for _, match := range quoted.FindAllStringSubmatch(comment, -1) {
		quotes = append(quotes, match[1])
	}
	return quotes
}

// withQuotes expects the quotes in the reasons of waiting pods.
func withQuotes(expectations []scenario.Expectation, quotes []string) []scenario.Expectation {
	expectations = slices.Clone(expectations)
	for i := range expectations {
		if expectations[i].Waiting {
			expectations[i].Reason.Quotes = quotes
		}
	}
	return expectations
}
