package integration

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
)

// TestCases runs the stories in testdata/cases, after public bug reports and files that users of drivers publish. Those that
// end the scheduler or give it arguments have one of their own.
//
// A story begins with what it is about, maybe a line "Arguments: {...}" for the plugin, and goes on with steps. A line that
// begins with "-- " is a step, and what follows up to the next one belongs to it. SPACE stands for a name that no other test has:
// nodes, classes and drivers have it in theirs. There is a device class SPACE for driver SPACE.example.com.
//
//	-- apply                           objects as YAML, created or updated in their order
//	-- delete Pod|DeviceClass|ResourceSlice|ResourceClaim NAME
//	-- report CLAIM CONDITION          what a driver says about all devices of a claim
//	-- holds CLAIM POOL/DEVICE...      wait until a claim has exactly these, ready or not
//	-- runs POD NODE POOL/DEVICE...    wait until a pod runs on a node with exactly these devices
//	-- waits POD [TEXT]                wait until a pod is told to wait, with that text
//	-- kill, -- restart                the scheduler
//	-- later                           wait until what is created next is younger: creationTimestamps are in seconds
//
// What kubectl devices explain says is compared with what happens: of a pod that is applied and in the next step runs, that a node
// fits it, and of a pod that waits, that none does.
func TestCases(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/cases/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			runStory(t, strings.TrimSuffix(filepath.Base(file), ".txt"), string(text))
		})
	}
}

// story is a story while it runs.
type story struct {
	*space
	// scheduler is that of the story alone; nil if it uses the shared one.
	scheduler *harness.Scheduler
	// changed is set if there may be something that the scheduler has not seen, and killed while it does not run.
	changed, killed bool
	// promised has what explain said of pods right before they were created, if that was the step before.
	promised map[string]bool
}

// runStory runs a story.
func runStory(t *testing.T, name, text string) {
	t.Helper()
	s := &story{}
	if _, given, has := strings.Cut(text, "\nArguments: "); has || strings.Contains(text, "\n-- kill") || strings.Contains(text, "\n-- restart") {
		given, _, _ = strings.Cut(given, "\n")
		var args map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(given), &args))
		s.space = newOwnSpace(t, "case-"+name, 0)
		s.scheduler = s.StartScheduler(harness.SchedulerOptions{PluginArgs: args})
	} else {
		s.space = newSpace(t, "case-"+name, 0)
	}
	text = strings.ReplaceAll(text, "SPACE", s.Name)
	steps := strings.Split("\n"+text, "\n-- ")[1:]
	require.NotEmpty(t, steps, "a story has steps")
	for i, step := range steps {
		line, body, _ := strings.Cut(step, "\n")
		t.Logf("step %d: %s", i+1, line)
		s.step(strings.Fields(line), body)
	}
}

// step does one step.
func (s *story) step(words []string, body string) {
	s.T.Helper()
	promised := s.promised
	s.promised = nil
	switch verb, words := words[0], words[1:]; verb {
	case "apply":
		s.promised = make(map[string]bool)
		for _, document := range strings.Split("\n"+body, "\n---") {
			if strings.TrimSpace(document) != "" {
				s.apply(document)
			}
		}
	case "delete":
		s.deleteNamed(words[0], words[1])
		s.changed = true
	case "report":
		s.known()
		s.reports(words[0], words[1])
	case "holds":
		s.holds(words[0], words[1:]...)
	case "runs":
		if fits, asked := promised[words[0]]; asked {
			require.True(s.T, fits, "explain did not say that pod %s fits", words[0])
		}
		s.Running(words[0])
		require.Equal(s.T, words[1], s.LivePod(words[0]).Spec.NodeName)
		s.has(words[0], words[2:])
		s.promised = promised
	case "waits":
		require.False(s.T, promised[words[0]], "explain said that pod %s fits", words[0])
		s.Waiting(words[0], strings.Join(words[1:], " "))
		require.Empty(s.T, s.fits(s.LivePod(words[0])), "explain says that nodes fit pod %s, which waits", words[0])
		s.promised = promised
	case "later":
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
	case "kill":
		require.NoError(s.T, s.scheduler.Kill())
		s.killed = true
	case "restart":
		require.NoError(s.T, s.scheduler.Restart(s.T.Context()))
		s.killed, s.changed = false, false // It sees all that there is before it begins.
	default:
		require.FailNow(s.T, "no such step: "+verb)
	}
}

// apply creates or updates an object.
func (s *story) apply(document string) {
	s.T.Helper()
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
	require.NoError(s.T, err, document)
	_, isPod := object.(*corev1.Pod)
	s.changed = s.changed || !isPod
	switch o := object.(type) {
	case *corev1.Node:
		object = fleet.Node(o.Name, s.Name, o.Labels)
	case *corev1.Pod:
		object = s.completed(o)
		s.known()
		s.promised[o.Name] = len(s.fits(object.(*corev1.Pod))) > 0
	case *resourceapi.DeviceClass:
		if s.updated(o) {
			return
		}
	case *resourceapi.ResourceSlice:
		if s.updated(o) {
			return
		}
	}
	s.Create(object)
}

// known waits until the scheduler, if it runs, knows what the story has changed. The first attempt for a pod decides by that, and so
// does the next one after a device has failed.
func (s *story) known() {
	s.T.Helper()
	if s.changed && !s.killed {
		s.Known()
		s.changed = false
	}
}

// completed is a pod with what all pods of tests have.
func (s *story) completed(pod *corev1.Pod) *corev1.Pod {
	whole := s.Pod(pod.Name, pod.Spec.ResourceClaims)
	whole.Namespace = s.Name
	whole.Spec.Containers[0].Resources = pod.Spec.Containers[0].Resources
	for label, value := range pod.Spec.NodeSelector {
		whole.Spec.NodeSelector[label] = value
	}
	return whole
}

// updated replaces the spec of an object, if there is one of that name.
func (s *story) updated(object runtime.Object) (is bool) {
	s.T.Helper()
	s.Eventually("update an object", func(ctx context.Context) (err error) {
		api := s.Cluster.Client.ResourceV1()
		switch o := object.(type) {
		case *resourceapi.DeviceClass:
			var known *resourceapi.DeviceClass
			if known, err = api.DeviceClasses().Get(ctx, o.Name, metav1.GetOptions{}); err == nil {
				known.Spec = o.Spec
				_, err = api.DeviceClasses().Update(ctx, known, metav1.UpdateOptions{})
			}
		case *resourceapi.ResourceSlice:
			var known *resourceapi.ResourceSlice
			if known, err = api.ResourceSlices().Get(ctx, o.Name, metav1.GetOptions{}); err == nil {
				known.Spec = o.Spec
				_, err = api.ResourceSlices().Update(ctx, known, metav1.UpdateOptions{})
			}
		}
		is = !apierrors.IsNotFound(err)
		if !is {
			return nil
		}
		return err
	})
	return is
}

func (s *story) deleteNamed(kind, name string) {
	s.T.Helper()
	meta := metav1.ObjectMeta{Name: name}
	objects := map[string]runtime.Object{
		"Pod": &corev1.Pod{ObjectMeta: meta}, "DeviceClass": &resourceapi.DeviceClass{ObjectMeta: meta},
		"ResourceSlice": &resourceapi.ResourceSlice{ObjectMeta: meta}, "ResourceClaim": &resourceapi.ResourceClaim{ObjectMeta: meta},
	}
	require.Contains(s.T, objects, kind)
	s.Delete(objects[kind])
}

// has compares the devices of a pod.
func (s *story) has(pod string, want []string) {
	s.T.Helper()
	var names []string
	for _, result := range s.Results(pod) {
		names = append(names, result.Pool+"/"+result.Device)
	}
	slices.Sort(names)
	slices.Sort(want)
	require.Empty(s.T, cmp.Diff(want, names), "devices of pod %s: -want, +got", pod)
}

// fits are the nodes that fit a pod by what kubectl devices explain says.
func (s *story) fits(pod *corev1.Pod) []string {
	s.T.Helper()
	objects, err := whatif.FromClient(s.Cluster.Client).Read(s.T.Context())
	require.NoError(s.T, err)
	explanation, err := whatif.New(objects, whatif.Options{}).Explain(s.T.Context(), pod)
	require.NoError(s.T, err)
	s.T.Logf("explain %s: fits %v, problem %q", pod.Name, explanation.Fits, explanation.Problem)
	return explanation.Fits
}
