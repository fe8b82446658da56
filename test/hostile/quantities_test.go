package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
)

// endlessQuantities are, for each kind of object with quantities, what an API server stores of those with which
// resource.Quantity calculates for hours. It does not parse what is in custom resources. With larger exponents than
// these in pods and nodes, and with any below zero, its own validation does not come back, so that no scheduler
// sees them. DeviceClasses and PodGroups of Kubernetes have no quantities; what expressions of classes compare is
// in endless.
var endlessQuantities = map[string][]string{
	"claim":    {"1e999999999", "0e999999999", "1e999999"},
	"template": {"1e999999999", "0e999999999", "1e999999"},
	"slice":    {"1e999999999", "1e999999"},
	"counters": {"1e999999999", "0e999999999", "1e999999"},
	"group":    {"1e999999999", "0e999999999", "1e-999999999", "1e-9999999", "1e-999999999999", "12345678901234567890e999999999"},
	"pod":      {"1e9999"},
	"node":     {"1e9999"},
}

// between is how many ordinary pods run after each endless quantity.
const between = 2 * atATime

// quantities sends objects with quantities that nobody can calculate with.
type quantities struct {
	space *harness.Space
	// sent are the paths of what was created, and pods those that want it.
	sent, pods []string
}

// TestEndlessQuantities: whatever quantity is in an object, pods of others run, those that want the object are told something, and a
// scheduler starts that finds it there.
func TestEndlessQuantities(t *testing.T) {
	require.NoError(t, manifests.Apply(t.Context(), cluster.ControlPlane.AdminConfig(), manifests.PodGroups, manifests.ApplyOptions{}))
	s := newStream(t, "quantities")
	q := &quantities{space: s.space}
	t.Cleanup(q.remove)
	ordinary := between
	if testing.Short() {
		ordinary = atATime
	}
	for _, kind := range slices.Sorted(maps.Keys(endlessQuantities)) {
		for i, quantity := range endlessQuantities[kind] {
			t.Log(s.run(fmt.Sprintf("%s-%d", kind, i), ordinary, func() { q.sendAll(kind, fmt.Sprintf("%s-endless-%s-%d", s.space.Name, kind, i), quantity) }))
		}
	}
	q.awaitAnswers()
	require.NoError(t, s.scheduler.Kill())
	require.NoError(t, s.scheduler.Restart(t.Context()))
	t.Log(s.run("restarted", ordinary, nil))
	q.awaitAnswers()
}

// sendAll creates an object with the quantity, what is needed to use it, and a pod that does.
func (q *quantities) sendAll(kind, name, quantity string) {
	s, endless := q.space, resource.MustParse(rawQuantity)
	asksFor := func(class string, amounts ...resource.Quantity) *builder.ClaimBuilder {
		var requests []*builder.RequestBuilder
		for i, amount := range amounts {
			requests = append(requests, builder.Request(fmt.Sprintf("r%d", i), class).Modify(func(r *resourceapi.ExactDeviceRequest) {
				r.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": amount}}
			}))
		}
		return builder.Claim(name, requests...)
	}
	inNamespace := func(group, resource string) string {
		return fmt.Sprintf("/apis/%s/namespaces/%s/%s", group, s.Name, resource)
	}
	one, claims := resource.MustParse("1"), inNamespace("resource.k8s.io/v1", "resourceclaims")
	switch kind {
	case "claim":
		q.send(claims, serverMade(asksFor(s.Name, endless, one).Obj()), quantity)
		q.podFor(name, builder.Uses(name))
	case "template":
		q.send(inNamespace("resource.k8s.io/v1", "resourceclaimtemplates"), asksFor(s.Name, endless, one).Template(), quantity)
		q.podFor(name, builder.FromTemplate(name))
	case "slice": // Adjacent devices of one type but for the capacity, and one that is shared.
		policy := resourceapi.CapacityRequestPolicy{Default: &endless, ValidValues: []resource.Quantity{endless}}
		q.publish(name, quantity, builder.Slice(name).Devices(builder.Device("a").Capacity("memory", rawQuantity), builder.Device("b").Capacity("memory", "80Gi"),
			builder.Device("c").Shared().Capacity("memory", rawQuantity).Policy("memory", policy)))
		q.send(claims, serverMade(asksFor(name, endless, one).Obj()), quantity)
		q.podFor(name, builder.Uses(name))
	case "counters":
		q.publish(name, quantity, builder.Slice(name+"-sets").InPool(name, 1, 2).Counters("set", "memory", rawQuantity),
			builder.Slice(name).InPool(name, 1, 2).Devices(builder.Device("a").Consumes("set", "memory", rawQuantity), builder.Device("b").Consumes("set", "memory", "1")))
		q.send(claims, serverMade(builder.Claim(name, builder.Request("gpu", name).Count(2)).Obj()), quantity)
		q.podFor(name, builder.Uses(name))
	case "group":
		group := &v1alpha1.PodGroup{TypeMeta: metav1.TypeMeta{APIVersion: "scheduling.x-k8s.io/v1alpha1", Kind: "PodGroup"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
		group.Spec = v1alpha1.PodGroupSpec{MinMember: 1, MinResources: corev1.ResourceList{"cpu": endless}}
		q.send(inNamespace("scheduling.x-k8s.io/v1alpha1", "podgroups"), group, quantity)
		q.podFor(name, nil, func(pod *corev1.Pod) { pod.Labels = map[string]string{v1alpha1.PodGroupLabel: name} })
	case "pod":
		q.send(claims, serverMade(asksFor(s.Name, one).Obj()), quantity)
		pod := s.Pod(name, builder.Uses(name))
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": endless}
		q.send(fmt.Sprintf("/api/v1/namespaces/%s/pods", s.Name), pod, quantity)
		q.pods = append(q.pods, name)
	case "node":
		node := fleet.Node(name, s.Name, nil)
		node.Status.Capacity["cpu"], node.Status.Allocatable["cpu"] = endless, endless
		node.Status.Capacity["example.com/x"], node.Status.Allocatable["example.com/x"] = endless, endless
		q.send("/api/v1/nodes", node, quantity)
	}
}

// publish creates slices of a driver on the first node, and a class of its devices.
func (q *quantities) publish(name, quantity string, published ...*builder.SliceBuilder) {
	driver := name + ".example.com"
	for _, slice := range published {
		q.send("/apis/resource.k8s.io/v1/resourceslices", slice.OfDriver(driver).OnNode(q.space.Node(0)).Obj(), quantity)
	}
	q.send("/apis/resource.k8s.io/v1/deviceclasses", builder.Class(name, builder.OfDriver(driver)), quantity)
}

// send creates an object as it is written, with the quantity in the place of rawQuantity. The API server has to take it.
func (q *quantities) send(path string, object metav1.Object, quantity string) {
	t := q.space.T
	t.Helper()
	object.SetNamespace("") // The path says it.
	body, err := json.Marshal(object)
	require.NoError(t, err)
	text := strings.ReplaceAll(string(body), rawQuantity, quantity)
	ctx, cancel := context.WithTimeout(t.Context(), q.space.Patience)
	defer cancel()
	err = cluster.Client.CoreV1().RESTClient().Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(text)).Do(ctx).Error()
	require.NoError(t, err, "%s with %s", path, quantity)
	q.sent = append(q.sent, path+"/"+object.GetName())
}

// podFor creates a pod with claims.
func (q *quantities) podFor(name string, claims []corev1.PodResourceClaim, edits ...func(*corev1.Pod)) {
	q.space.T.Helper()
	pod := q.space.Pod(name, claims)
	for _, edit := range edits {
		edit(pod)
	}
	q.space.Create(pod)
	q.pods = append(q.pods, name)
}

// awaitAnswers waits until each of the pods runs or is told why not.
func (q *quantities) awaitAnswers() {
	q.space.T.Helper()
	for _, name := range q.pods {
		q.space.Eventually("have an answer for pod "+name, func(context.Context) error {
			pod, err := q.space.KnownPod(name)
			if err == nil && pod.Spec.NodeName == "" && harness.Reason(pod) == "" {
				err = fmt.Errorf("pod %s waits without a reason", name)
			}
			return err
		})
	}
}

// remove deletes what was created, so that what remains can be checked.
func (q *quantities) remove() {
	ctx := context.Background()
	require.NoError(q.space.T, cluster.Client.CoreV1().Pods(q.space.Name).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}))
	for _, path := range q.sent {
		err := cluster.Client.CoreV1().RESTClient().Delete().AbsPath(path).Do(ctx).Error()
		require.True(q.space.T, err == nil || apierrors.IsNotFound(err), "%s: %v", path, err)
	}
}
