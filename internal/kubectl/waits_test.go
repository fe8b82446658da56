package kubectl

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// unwrapped is a text without its line ends.
func unwrapped(text string) string { return strings.Join(strings.Fields(text), " ") }

// waiting adds a pod that waits with a claim of its own, and returns it.
func waiting(o *whatif.Objects, name string) *v1.Pod {
	o.Claims = append(o.Claims, b.Claim(name, b.Request("gpu", b.Driver)).Obj())
	pod := b.Pod(name, b.Using(b.Uses(name)...))
	pod.Spec.SchedulerName = "quartermaster"
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Message: "waits"}}
	o.Pods = append(o.Pods, pod)
	return pod
}

const soon = "should be scheduled with the next attempt"

// TestWaitsForNoDevice: a pod that waits for something else is not promised a node.
func TestWaitsForNoDevice(t *testing.T) {
	for name, test := range map[string]struct {
		change func(o *whatif.Objects, pod *v1.Pod) []runtime.Object
		want   string
	}{
		"nothing": {func(*whatif.Objects, *v1.Pod) []runtime.Object { return nil }, soon},
		"gates": {func(_ *whatif.Objects, pod *v1.Pod) []runtime.Object {
			pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "a.example/quota"}}
			return nil
		}, "its scheduling gates (a.example/quota) have to be removed"},
		"no scheduler": {func(o *whatif.Objects, pod *v1.Pod) []runtime.Object {
			pod.Status.Conditions, pod.Spec.SchedulerName = nil, "quartermister"
			o.Pods[0].Spec.SchedulerName = "quartermaster"
			return nil
		}, `no scheduler has looked at it yet: it has no condition PodScheduled. It names scheduler "quartermister" (spec.schedulerName), ` +
			"which has bound no pod that you may see; those that have are quartermaster."},
		"gang that is not whole": {func(_ *whatif.Objects, pod *v1.Pod) []runtime.Object {
			pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: ptr.To("team")}
			return []runtime.Object{gangOfThree()}
		}, "gang team starts 3 pods at once; there is 1 of 3, so that none gets a node before the others exist"},
		"gang that is not there": {func(_ *whatif.Objects, pod *v1.Pod) []runtime.Object {
			pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: ptr.To("team")}
			return nil
		}, "it may have to start together with others of PodGroup team, which is not known"},
		"binding condition": {func(o *whatif.Objects, _ *v1.Pod) []runtime.Object {
			claim := o.Claims[len(o.Claims)-1]
			claim.Status = b.Claim("x").Allocated("node-2", "gpu-0").Status
			claim.Status.Allocation.Devices.Results[0].BindingConditions = []string{"FabricDeviceReady"}
			return nil
		}, "its devices are not ready (binding conditions): device gpu.example.com/node-2/gpu-0 lacks FabricDeviceReady."},
		"quota": {func(o *whatif.Objects, pod *v1.Pod) []runtime.Object {
			pod.Spec.ResourceClaims = b.FromTemplate("best")
			quota := &v1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: "few"}}
			quota.Status.Hard = b.Resources("count/resourceclaims.resource.k8s.io", "2")
			quota.Status.Used = quota.Status.Hard
			return []runtime.Object{quota, &v1.Event{
				ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: "e"}, Reason: failedCreation, Message: "exceeded quota: few",
				InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: b.Namespace, Name: pod.Name},
			}}
		}, "has not made its claim best from the template: exceeded quota: few. ResourceQuota few is used up: 2 of 2 count/resourceclaims.resource.k8s.io."},
	} {
		t.Run(name, func(t *testing.T) {
			o := rack()
			pod := waiting(&o, "asks")
			more := test.change(&o, pod)
			client := server(o, "", "")
			for _, template := range o.Templates {
				require.NoError(t, client.Tracker().Add(template))
			}
			for _, object := range more {
				require.NoError(t, client.Tracker().Add(object))
			}
			out, _, err := ask(t, client, "explain", "asks")
			require.NoError(t, err)
			assert.Contains(t, unwrapped(out), test.want)
			assert.Equal(t, name == "nothing", strings.Contains(unwrapped(out), soon), out)
		})
	}
}

func gangOfThree() *schedulingapi.PodGroup {
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: "team"}}
	group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: 3}
	return group
}

// TestTenant: a user with ClusterRole view in one namespace gets no false answer.
func TestTenant(t *testing.T) {
	o := rack()
	waiting(&o, "asks")
	tenant := func() *fake.Clientset {
		return server(o, "resourceclaims resourceclaimtemplates pods", "nodes resourceslices deviceclasses devicetaintrules")
	}
	out, errOut, err := ask(t, tenant(), "explain", "asks")
	status, _ := StatusOf(err)
	require.Equal(t, ExitCannotTell, status)
	require.Contains(t, unwrapped(out), "Nothing can be said about nodes: "+
		"whether device class gpu.example.com exists is not known: deviceclasses may not be read")
	require.NotContains(t, out, "does not exist")
	require.Equal(t, 1, strings.Count(errOut, "\n"), errOut)

	out, errOut, err = ask(t, tenant())
	status, _ = StatusOf(err)
	require.Equal(t, ExitCannotTell, status)
	require.Contains(t, out, "Which devices there are is not known")
	require.Equal(t, 1, strings.Count(errOut, "\n"), errOut)

	for command, answer := range map[string]string{
		"list": "Which devices there are is not known", "fragmentation": "What fits is not known",
	} {
		out, _, err = ask(t, tenant(), command)
		status, _ = StatusOf(err)
		require.Equal(t, ExitCannotTell, status, command)
		require.Contains(t, out, answer)
	}
	out, _, err = ask(t, server(o, "resourceclaims resourceclaimtemplates pods", "resourceclaims"), "list")
	require.NoError(t, err)
	require.NotContains(t, out, "Free")
	require.Contains(t, out, "NotKnown")
	out, _, err = ask(t, server(o, "pods", "resourceclaims"), "holders", "-A")
	status, _ = StatusOf(err)
	require.Equal(t, ExitCannotTell, status)
	require.Contains(t, out, "Who holds devices is not known")

	_, _, err = ask(t, tenant(), "explain", "elsewhere/asks")
	require.ErrorContains(t, err, "whether a pod or claim elsewhere/asks exists is not known: pods may not be read")
	_, _, err = ask(t, tenant(), "explain", "nobody")
	require.ErrorContains(t, err, "there is no pod default/nobody")
}

// TestEventsUnread: a claim that is not made for reasons that may not be read.
func TestEventsUnread(t *testing.T) {
	o := rack()
	waiting(&o, "asks").Spec.ResourceClaims = b.FromTemplate("best")
	client := server(o, "", "")
	require.NoError(t, client.Tracker().Add(o.Templates[1]))
	client.PrependReactor("list", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "", errors.New("no"))
	})
	out, _, err := ask(t, client, "explain", "asks")
	require.NoError(t, err)
	require.Contains(t, unwrapped(out), "why is not known: only the pod's events say it, and you may not read them")
}

// TestNeverPreempts: the pod's policy forbids what would help.
func TestNeverPreempts(t *testing.T) {
	o := rack()
	o.Pods[len(o.Pods)-2].Spec.PreemptionPolicy = ptr.To(v1.PreemptNever)
	text, err := run(t, o, "explain", "waits")
	require.NoError(t, err)
	require.Contains(t, text, "held by pods of lower priority: default/low-b")
	require.Contains(t, text, "its preemptionPolicy is Never")
	require.NotContains(t, text, "no pods of lower priority")
}

// TestSelectorsThatNothingMatches are shown with the values that there are.
func TestSelectorsThatNothingMatches(t *testing.T) {
	o := rack()
	o.Claims = append(o.Claims, b.Claim("typo", b.Request("gpu", b.Driver).Where(`device.attributes["gpu.example.com"].numa == 7`)).Obj())
	o.Pods = append(o.Pods, b.Pod("typo", b.Using(b.Uses("typo")...)))
	text, err := run(t, o, "explain", "typo")
	require.NoError(t, err)
	require.Contains(t, unwrapped(text), `request gpu wants device.attributes["gpu.example.com"].numa == 7; gpu.example.com/numa is 0 (8 devices), 1 (8 devices)`)
}

// TestPlaced: the answer names shares, admin access and tolerated taints of a running pod.
func TestPlaced(t *testing.T) {
	o := zoo()
	text, err := run(t, o, "explain", "fast")
	require.NoError(t, err)
	require.Contains(t, unwrapped(text), "a share: bandwidth 30G of nic.example.com/fabric/nic-0")
	text, err = run(t, o, "explain", "monitor")
	require.NoError(t, err)
	require.Contains(t, unwrapped(text), "with admin access, which leaves the devices to others")
	require.Contains(t, unwrapped(text), "despite the taint drain:NoExecute of gpu.example.com/node-1/gpu-0")
}

// TestExtendedResources are named as the pod does it.
func TestExtendedResources(t *testing.T) {
	o := rack()
	o.Classes[0].Spec.ExtendedResourceName = ptr.To("example.com/gpu")
	o.Pods = append(o.Pods, b.Pod("via", b.Container("main", "example.com/gpu", "5")))
	text, err := run(t, o, "explain", "via")
	require.NoError(t, err)
	require.Contains(t, unwrapped(text), "extended resource example.com/gpu of container main")
	require.NotContains(t, text, "via-extended-resources-")
}
