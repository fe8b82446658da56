package checker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// gangWorld has two nodes with two devices each, of which one is held, and a gang of pods that wait with a claim of so many
// devices each. Each kind of world is there for both kinds of PodGroups.
func gangWorld(native bool, devices ...int64) cluster {
	c := waitingWorld()
	c.nodes = append(c.nodes, newNode("node-b"))
	c.nodes[1].Status.Allocatable = c.nodes[0].Status.Allocatable.DeepCopy()
	c.slices = append(c.slices, newSlice("b", "node-b", builder.Device("gpu-0"), builder.Device("gpu-1")))
	c.claims, c.pods = c.claims[:1], c.pods[:1]
	for i, count := range devices {
		name := fmt.Sprintf("member-%d", i)
		c.claims = append(c.claims, newClaim(name, ofClass("gpu", count)))
		pod := newPod(name, uses(name))
		if native {
			builder.InGroup("gang")(pod)
		} else {
			pod.Labels = map[string]string{v1alpha1.PodGroupLabel: "gang"}
		}
		c.pods = append(c.pods, pod)
	}
	return c
}

// ofKind returns the options and objects for a PodGroup of either kind.
func ofKind(native bool, least int32, c *cluster, change func(metav1.Object)) (Options, string) {
	if change == nil {
		change = func(metav1.Object) {}
	}
	options := Options{Settled: true, Served: servedHere}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "gang"}
	if native {
		group := &schedulingapi.PodGroup{ObjectMeta: meta}
		group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: least}
		change(group)
		c.others = append(c.others, group)
		return options, "GroupCouldRun PodGroup train/gang"
	}
	group := v1alpha1.PodGroup{ObjectMeta: meta, Spec: v1alpha1.PodGroupSpec{MinMember: least}}
	change(&group)
	options.PodGroups = func(context.Context) ([]v1alpha1.PodGroup, error) { return []v1alpha1.PodGroup{group}, nil }
	return options, "GroupCouldRun group train/gang"
}

// TestGangsWait: a gang that waits is reported if all that it lacks would fit together, and else not.
func TestGangsWait(t *testing.T) {
	member := func(i int, change func(*corev1.Pod)) func(*cluster) {
		return func(c *cluster) { change(c.pods[1+i]) }
	}
	firstRuns := func(c *cluster) {
		boundTo("node-a")(c.pods[1])
		allocated("gpu", "node-a", "gpu-1")(c.claims[1])
		reserved("member-0")(c.claims[1])
	}
	shared := member(1, func(p *corev1.Pod) {
		p.Spec.ResourceClaims = nil
		uses("member-0")(p)
	})
	for name, test := range map[string]struct {
		devices []int64
		least   int32
		change  func(*cluster)
		group   func(metav1.Object)
		// fits says that the gang could run, alone which of its pods could, texts what the message tells.
		fits  bool
		alone string
		texts []string
	}{
		"all fit on two nodes": {devices: []int64{1, 2}, least: 2, fits: true, texts: []string{
			"it lacks 2 pods", "pod member-0 on node node-a with gpu.example.com/node-a/gpu-1 for claim member-0; pod member-1 on node node-b with",
		}},
		"all fit on one node":                {devices: []int64{1, 1, 1}, least: 3, fits: true},
		"only one would fit":                 {devices: []int64{2, 2}, least: 2},
		"some are enough":                    {devices: []int64{2, 2, 1}, least: 2, fits: true},
		"one does not exist":                 {devices: []int64{1, 1}, least: 3},
		"one has its claim not yet":          {devices: []int64{1, 1}, least: 2, change: func(c *cluster) { c.claims = c.claims[:2] }},
		"one runs and it lacks another":      {devices: []int64{1, 2}, least: 2, change: firstRuns, fits: true, texts: []string{"it lacks 1 pods"}},
		"one runs and the other has no room": {devices: []int64{1, 2}, least: 2, change: func(c *cluster) { firstRuns(c); c.nodes[1].Spec.Unschedulable = true }},
		"one runs and that is enough":        {devices: []int64{1, 2}, least: 1, change: firstRuns, alone: "member-1"},
		"there is room for fewer pods":       {devices: []int64{1, 1, 1}, least: 3, change: func(c *cluster) { c.nodes[1].Status.Allocatable[corev1.ResourcePods] = resource.MustParse("1") }},
		"two share a claim":                  {devices: []int64{2, 1}, least: 2, change: shared, fits: true},
		"two share a claim and its node has no room": {devices: []int64{2, 1}, least: 2, change: func(c *cluster) {
			shared(c)
			c.nodes[1].Status.Allocatable[corev1.ResourcePods] = resource.MustParse("1")
		}},
		"it has an older label as well":  {devices: []int64{1}, least: 1, change: member(0, func(p *corev1.Pod) { p.Labels = map[string]string{oldGroupLabel: "gang"} })},
		"its pods are of two schedulers": {devices: []int64{1, 1, 1}, least: 2, change: member(2, func(p *corev1.Pod) { p.Spec.SchedulerName = "other" })},
		"it is to be in one domain": {devices: []int64{1}, least: 1, group: func(o metav1.Object) {
			o.SetAnnotations(map[string]string{"example.com/required-domain": "label=rack"})
		}},
		"its PodGroup does not exist":     {devices: []int64{1}, least: 1, group: func(o metav1.Object) { o.SetName("other") }},
		"somebody is nominated for a pod": {devices: []int64{1}, least: 1, change: keptForNominated},
		"devices are held on its nodes":   {devices: []int64{1}, least: 1, change: held("2 devices on node-a and node-b are", 0)},
		"devices are held elsewhere":      {devices: []int64{1}, least: 1, change: held("1 device on node-x is", 0), fits: true},
		"devices are held for less":       {devices: []int64{1}, least: 1, change: held("2 devices on node-a and node-b are", -1), fits: true},
	} {
		for kind, native := range map[string]bool{"of scheduler-plugins": false, "of Kubernetes": true} {
			c := gangWorld(native, test.devices...)
			if test.change != nil {
				test.change(&c)
			}
			options, want := ofKind(native, test.least, &c, test.group)
			tc := testCase{cluster: c, options: options, wantTexts: test.texts}
			if test.fits {
				tc.want = []string{want}
			}
			if test.alone != "" {
				tc.want = []string{"PodCouldRun pod train/" + test.alone}
			}
			t.Run(name+" "+kind, tc.run)
		}
	}
}

// keptForNominated has a pod end and another one be nominated there.
func keptForNominated(c *cluster) {
	ending := newPod("ending", boundTo("node-a"))
	ending.DeletionTimestamp, ending.Finalizers = ptr.To(metav1.Now()), []string{"example.com/slow"}
	nominee := newPod("nominee", func(pod *corev1.Pod) { pod.Status.NominatedNodeName = "node-a"; pod.Spec.SchedulerName = "other" })
	c.pods = append(c.pods, ending, nominee)
}

// held has devices be held for another pod.
func held(which string, priority int32) func(*cluster) {
	return func(c *cluster) {
		c.pods = append(c.pods, newPod("holder", func(pod *corev1.Pod) {
			pod.Spec.SchedulerName, pod.Spec.Priority = "other", &priority
			pod.Status.Conditions = []corev1.PodCondition{{Type: "x/DevicesHeld", Status: corev1.ConditionTrue, Message: which + " held for pod train/holder which waits"}}
		}))
	}
}

// TestPodGroupsOfKubernetes: kube-scheduler tries a PodGroup as a whole, and only one whose pods are alike.
func TestPodGroupsOfKubernetes(t *testing.T) {
	plain := func(metav1.Object) {}
	native := func(least int32, group func(metav1.Object), change func(*cluster), want ...string) testCase {
		c := gangWorld(true, 1, 1)
		change(&c)
		options, _ := ofKind(true, least, &c, group)
		return testCase{cluster: c, options: options, want: want}
	}
	could := "GroupCouldRun PodGroup train/gang"
	ofGroup := func(c *cluster) {
		for _, pod := range c.pods[1:] {
			pod.Spec.ResourceClaims = nil
			uses("member-0")(pod)
		}
		allocated("gpu", "node-b", "gpu-0")(c.claims[1])
		c.claims[1].Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{APIGroup: schedulingGroup, Resource: "podgroups", Name: "gang", UID: "gang-uid"}}
	}
	runAll(t, map[string]testCase{
		"its pods have its priority": native(2, func(o metav1.Object) { o.(*schedulingapi.PodGroup).Spec.Priority = ptr.To[int32](5) }, func(c *cluster) {
			for _, pod := range c.pods[1:] {
				pod.Spec.Priority = ptr.To[int32](5)
			}
		}, could),
		"one has another":           native(2, plain, func(c *cluster) { c.pods[2].Spec.Priority = ptr.To[int32](5) }),
		"one more is gated":         native(1, plain, func(c *cluster) { c.pods[2].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "x"}} }),
		"one more has no claim yet": native(1, plain, func(c *cluster) { c.claims = c.claims[:2] }),
		"it is going":               native(2, func(o metav1.Object) { o.SetDeletionTimestamp(ptr.To(metav1.Now())); o.SetFinalizers([]string{"x/y"}) }, func(*cluster) {}),
		"it is no gang": native(2, func(o metav1.Object) { o.(*schedulingapi.PodGroup).Spec.SchedulingPolicy.Gang = nil }, func(*cluster) {},
			"PodCouldRun pod train/member-0", "PodCouldRun pod train/member-1"),
		"a claim is reserved for it": native(2, plain, ofGroup, could),
		"a claim is reserved for another": native(2, plain, func(c *cluster) {
			ofGroup(c)
			c.claims[1].Status.ReservedFor[0].Name = "other"
		}),
	})
}

// TestPodGroupsOfSchedulerPlugins: what counts for a gang besides pods on nodes.
func TestPodGroupsOfSchedulerPlugins(t *testing.T) {
	labeled := func(group func(*v1alpha1.PodGroup), want ...string) testCase {
		c := gangWorld(false, 1)
		options, _ := ofKind(false, 2, &c, func(o metav1.Object) { group(o.(*v1alpha1.PodGroup)) })
		return testCase{cluster: c, options: options, want: want}
	}
	could := "GroupCouldRun group train/gang"
	runAll(t, map[string]testCase{
		"one is missing":    labeled(func(*v1alpha1.PodGroup) {}),
		"one has succeeded": labeled(func(g *v1alpha1.PodGroup) { g.Status.Succeeded = 1 }, could),
		"it has finished":   labeled(func(g *v1alpha1.PodGroup) { g.Status.Succeeded, g.Status.Phase = 1, v1alpha1.PodGroupFinished }),
		"it needs more": labeled(func(g *v1alpha1.PodGroup) {
			g.Spec.MinMember, g.Spec.MinResources = 1, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		}),
	})
}

// TestTooManyWays: a search that takes too long is no answer.
func TestTooManyWays(t *testing.T) {
	c := gangWorld(false, 2, 2, 2, 2, 2, 2, 2)
	for i := range 20 {
		node := newNode(fmt.Sprintf("other-%d", i))
		node.Status.Allocatable = c.nodes[0].Status.Allocatable.DeepCopy()
		c.nodes = append(c.nodes, node)
		if i < 5 {
			c.slices = append(c.slices, newSlice(node.Name, node.Name, builder.Device("gpu-0"), builder.Device("gpu-1")))
		}
	}
	options, _ := ofKind(false, 7, &c, nil)
	testCase{cluster: c, options: options, wantWarnings: []string{"NotLookedAt group train/gang"}}.run(t)
}

// TestPodGroupsFrom: a server without the resource has no PodGroups, and one that does not answer is an error.
func TestPodGroupsFrom(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code       int
		body, want string
	}{
		{code: http.StatusOK, body: `{"items":[{"metadata":{"namespace":"train","name":"gang"},"spec":{"minMember":2}}]}`, want: "train/gang 2"},
		{code: http.StatusNotFound, body: `{"kind":"Status","apiVersion":"v1","code":404,"reason":"NotFound"}`},
		{code: http.StatusForbidden, body: `{"kind":"Status","apiVersion":"v1","code":403,"reason":"Forbidden"}`, want: "list PodGroups of scheduler-plugins"},
		{code: http.StatusOK, body: `[]`, want: "list PodGroups of scheduler-plugins"},
	} {
		client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://server", Transport: answers(func(*http.Request) *http.Response {
			return &http.Response{StatusCode: test.code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(test.body))}
		})})
		groups, err := PodGroupsFrom(client.CoreV1().RESTClient())(context.Background())
		got := ""
		if err != nil {
			got = err.Error()
		}
		for _, group := range groups {
			got += fmt.Sprintf("%s/%s %d", group.Namespace, group.Name, group.Spec.MinMember)
		}
		require.Contains(t, got, test.want)
		require.Equal(t, test.want == "", got == "")
	}
}

// answers is a server.
type answers func(*http.Request) *http.Response

// RoundTrip implements http.RoundTripper.
func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

// TestGangsCannotBeJudged: PodGroups that cannot be listed are an error, not a good answer.
func TestGangsCannotBeJudged(t *testing.T) {
	t.Parallel()
	labeled := gangWorld(false, 1)
	options, _ := ofKind(false, 1, &labeled, nil)
	options.PodGroups = func(context.Context) ([]v1alpha1.PodGroup, error) { return nil, errors.New("refused") }
	_, err := Check(context.Background(), fake.NewClientset(labeled.objects()...), options)
	require.ErrorContains(t, err, "refused")

	native := gangWorld(true, 1)
	client := fake.NewClientset(native.objects()...)
	client.PrependReactor("list", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("refused") })
	_, err = Check(context.Background(), client, Options{Settled: true, Served: servedHere})
	require.ErrorContains(t, err, "refused")
}
