package checker

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// waitingWorld has a node with two devices, of which a claim of a running pod holds one, and a pod that waits with a claim
// for one.
func waitingWorld(change ...func(*cluster)) cluster {
	c := cluster{
		nodes:  []*corev1.Node{newNode("node-a")},
		slices: []*resourceapi.ResourceSlice{newSlice("a", "node-a", builder.Device("gpu-0"), builder.Device("gpu-1"))},
		claims: []*resourceapi.ResourceClaim{
			newClaim("held", ofClass("gpu", 1), allocated("gpu", "node-a", "gpu-0"), reserved("runs")),
			newClaim("wanted", ofClass("gpu", 1)),
		},
		pods: []*corev1.Pod{newPod("runs", boundTo("node-a"), uses("held")), newPod("waits", uses("wanted"))},
	}
	c.nodes[0].Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("10")}
	c.others = []runtime.Object{builder.Class("gpus", builder.OfDriver(driver))}
	for _, edit := range change {
		edit(&c)
	}
	return c
}

// ofClass is request with the class of waitingWorld.
func ofClass(name string, count int64) claimBuilder {
	return func(claim *resourceapi.ResourceClaim) {
		request(name, count)(claim)
		lastExactly(func(exactly *resourceapi.ExactDeviceRequest) { exactly.DeviceClassName = "gpus" })(claim)
	}
}

// conditional has the device wait for condition ready, and fail with condition failed.
func conditional(claim *resourceapi.ResourceClaim) {
	result := &claim.Status.Allocation.Devices.Results[0]
	result.BindingConditions, result.BindingFailureConditions = []string{"ready"}, []string{"failed"}
}

// reports has the driver report conditions.
func reports(conditions ...string) claimBuilder {
	return func(claim *resourceapi.ResourceClaim) {
		result := &claim.Status.Allocation.Devices.Results[0]
		status := resourceapi.AllocatedDeviceStatus{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
		for _, condition := range conditions {
			status.Conditions = append(status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue})
		}
		claim.Status.Devices = append(claim.Status.Devices, status)
	}
}

// TestWaiting: who waits although there is room is reported, and nobody else.
func TestWaiting(t *testing.T) {
	waits := func(change func(*corev1.Pod)) func(*cluster) { return func(c *cluster) { change(c.pods[1]) } }
	wanted := func(change func(*resourceapi.ResourceClaim)) func(*cluster) {
		return func(c *cluster) { change(c.claims[1]) }
	}
	node := func(change func(*corev1.Node)) func(*cluster) { return func(c *cluster) { change(c.nodes[0]) } }
	more := func(pods ...*corev1.Pod) func(*cluster) { return func(c *cluster) { c.pods = append(c.pods, pods...) } }
	cpus := func(amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
	}
	asks := func(amount string) podBuilder {
		return func(pod *corev1.Pod) {
			pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: cpus(amount)}}}
		}
	}
	nominee := newPod("nominee", func(pod *corev1.Pod) { pod.Status.NominatedNodeName = "node-a"; pod.Spec.SchedulerName = "other" })
	ending := newPod("ending", boundTo("node-a"))
	ending.DeletionTimestamp, ending.Finalizers = ptr.To(metav1.Now()), []string{"example.com/slow"}
	rule := func(device string) func(*cluster) {
		return func(c *cluster) {
			taint := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "broken"}}
			taint.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Device: &device}
			taint.Spec.Taint = resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}
			c.others = append(c.others, taint)
		}
	}
	says := func(message string) func(*cluster) {
		return waits(func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message}}
		})
	}
	besides := func(name string) func(*cluster) {
		return more(newPod(name, func(pod *corev1.Pod) { pod.Spec.SchedulerName = "other" }))
	}
	could := []string{"PodCouldRun pod train/waits"}
	cases := map[string]struct {
		change []func(*cluster)
		want   []string
	}{
		"a device is free":               {want: could},
		"without claims":                 {change: []func(*cluster){waits(func(p *corev1.Pod) { p.Spec.ResourceClaims = nil })}, want: could},
		"its claim is allocated already": {change: []func(*cluster){wanted(allocated("gpu", "node-a", "gpu-1")), wanted(onNode("node-a"))}, want: could},
		"it is allocated elsewhere":      {change: []func(*cluster){wanted(allocated("gpu", "node-a", "gpu-1")), wanted(onNode("node-b"))}},
		"it is held twice": {change: []func(*cluster){wanted(allocated("gpu", "node-a", "gpu-0")), wanted(onNode("node-a"))},
			want: []string{"DeviceHeldTwice device gpu.example.com/node-a/gpu-0"}},
		"its device is not ready": {change: []func(*cluster){wanted(allocated("gpu", "node-a", "gpu-1")), wanted(onNode("node-a")), wanted(conditional)}},
		"its device is ready":     {change: []func(*cluster){wanted(allocated("gpu", "node-a", "gpu-1")), wanted(onNode("node-a")), wanted(conditional), wanted(reports("ready"))}, want: could},
		"its device has failed":   {change: []func(*cluster){wanted(allocated("gpu", "node-a", "gpu-1")), wanted(onNode("node-a")), wanted(conditional), wanted(reports("ready", "failed"))}},
		"another node is full":    {change: []func(*cluster){func(c *cluster) { c.nodes = append(c.nodes, newNode("node-0")) }}, want: could},
		"its claim wants more":    {change: []func(*cluster){wanted(func(c *resourceapi.ResourceClaim) { c.Spec.Devices.Requests[0].Exactly.Count = 2 })}},
		"a share is left of its device, which is not shared any more": {change: []func(*cluster){func(c *cluster) {
			c.slices[0] = newSlice("a", "node-a", builder.Device("gpu-0").Capacity("memory", "10Gi"))
			share("s1", "1Gi")(c.claims[0])
			c.claims[1].Spec.Devices.Requests[0].Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("2Gi")}}
		}}},
		"the class is missing":         {change: []func(*cluster){func(c *cluster) { c.others = nil }}},
		"the device is tainted":        {change: []func(*cluster){rule("gpu-1")}},
		"another device is tainted":    {change: []func(*cluster){rule("gpu-0")}, want: could},
		"the pool is not complete":     {change: []func(*cluster){func(c *cluster) { c.slices[0].Spec.Pool.ResourceSliceCount = 2 }}},
		"its claim is missing":         {change: []func(*cluster){func(c *cluster) { c.claims = c.claims[:1] }}},
		"its claim was not made yet":   {change: []func(*cluster){waits(usesTemplate("later", ""))}},
		"it is gated":                  {change: []func(*cluster){waits(func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "x"}} })}},
		"devices are held for another": {change: []func(*cluster){says("1 held for pod train/large until about 12:00 UTC. More."), besides("large")}},
		"devices were held for one that runs": {change: []func(*cluster){says("1 held for pod train/large."), besides("large"), func(c *cluster) {
			c.pods[len(c.pods)-1].Spec.NodeName = "node-a"
		}}, want: could},
		"held for nobody": {change: []func(*cluster){says("1 held for pod train/large."), besides("small")},
			want: []string{"HeldForNobody pod train/waits"}},
		"held for lower priority": {change: []func(*cluster){says("held for pod train/large, 1 more"), besides("large"), waits(func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](1) })},
			want: []string{"HeldForNobody pod train/waits"}},
		"held for no other namespace": {change: []func(*cluster){says("held for a group of another namespace"), besides("large")},
			want: []string{"HeldForNobody pod train/waits"}},
		"it is in a gang": {change: []func(*cluster){waits(func(p *corev1.Pod) { p.Labels = map[string]string{oldGroupLabel: "gang"} })}},
		"it is being deleted": {change: []func(*cluster){waits(func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.Now()), []string{"example.com/keep"}
		})}},
		"it has a volume": {change: []func(*cluster){waits(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}}}
		})}},
		"it selects another node": {change: []func(*cluster){waits(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"rack": "node-b"} })}},
		"it selects this node":    {change: []func(*cluster){waits(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"rack": "node-a"} })}, want: could},
		"the node is cordoned":    {change: []func(*cluster){node(func(n *corev1.Node) { n.Spec.Unschedulable = true })}},
		"the node is tainted":     {change: []func(*cluster){node(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoExecute}} })}},
		"the node is rather not to be used": {change: []func(*cluster){node(func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectPreferNoSchedule}}
		})}, want: could},
		"the node has no room":                 {change: []func(*cluster){node(func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("3") }), waits(asks("2")), more(newPod("large", boundTo("node-a"), asks("2")))}},
		"what took the room has ended":         {change: []func(*cluster){node(func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("3") }), waits(asks("2")), more(newPod("large", boundTo("node-a"), asks("2"), phase(corev1.PodSucceeded)))}, want: could},
		"the node has enough pods":             {change: []func(*cluster){node(func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("1") })}},
		"it is kept for a nominated pod":       {change: []func(*cluster){more(nominee, ending)}},
		"nobody ends for the nominated pod":    {change: []func(*cluster){more(nominee)}, want: could},
		"nobody is nominated where a pod ends": {change: []func(*cluster){more(ending)}, want: could},
	}
	for name, test := range cases {
		t.Run(name, testCase{cluster: waitingWorld(test.change...), options: Options{Settled: true, Served: servedHere}, want: test.want}.run)
	}
}

// servedHere has a scheduler run for pods that do not name another one.
func servedHere(pod *corev1.Pod) bool { return pod.Spec.SchedulerName == "" }

// TestWaitingIsAsked: only what is settled and served is judged.
func TestWaitingIsAsked(t *testing.T) {
	nobody := func(*corev1.Pod) bool { return false }
	runAll(t, map[string]testCase{
		"not settled": {cluster: waitingWorld(), options: Options{Served: servedHere}},
		"not asked":   {cluster: waitingWorld(), options: Options{Settled: true}},
		"not served":  {cluster: waitingWorld(), options: Options{Settled: true, Served: nobody}},
	})
}

// TestWaitingCannotBeJudged: what cannot be listed is an error, not a good answer.
func TestWaitingCannotBeJudged(t *testing.T) {
	t.Parallel()
	for _, missing := range []string{"deviceclasses", "devicetaintrules"} {
		c := waitingWorld()
		client := fake.NewClientset(c.objects()...)
		client.PrependReactor("list", missing, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("refused") })
		_, err := Check(context.Background(), client, Options{Settled: true, Served: servedHere})
		require.ErrorContains(t, err, "refused")
	}
}
