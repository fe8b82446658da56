package hostile

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
)

var (
	seed   = flag.Int64("hostile.seed", 1, "seed of the hostile objects")
	claims = flag.Int("hostile.claims", 80, "number of hostile claims, each with a pod; half as many with -short")
)

// rawQuantity stands for one of rawQuantities, which are sent as they are.
const rawQuantity = "123456789123456789"

var rawQuantities = []string{"1e1000", "1e1000m", "1e-1000", "9223372036854775808", "-9223372036854775809", "1e2147483647", "0x10", "", "NaN", "1Ei1"}

const (
	hostilePools   = 12
	hostileClasses = 16
	// baseline is how many ordinary pods run before there is hostile input.
	baseline = 60
)

// input sends hostile objects to the API server and counts what becomes of them.
type input struct {
	*generator
	space              *harness.Space
	accepted, rejected map[string]int
	created            []runtime.Object // without pods
}

func TestHostileInput(t *testing.T) {
	s := newStream(t, "input")
	in := &input{
		generator: &generator{rng: rand.New(rand.NewSource(*seed)), prefix: s.space.Name, nodes: []string{s.space.Node(0), s.space.Node(1)}},
		space:     s.space, accepted: map[string]int{}, rejected: map[string]int{},
	}
	t.Cleanup(in.remove)
	hostile, ordinary, costly := *claims, baseline, 128
	if testing.Short() {
		hostile, ordinary, costly = hostile/2, ordinary/3, 16 // These keep a processor busy for seconds anyway.
	}
	t.Log(s.run("none", ordinary, nil))
	var pods []string
	t.Log(s.run("hostile", ordinary, func() {
		pods = in.sendAll(hostile)
		in.awaitAnswers(pods)
	}))
	t.Log(s.run("costly", ordinary, func() {
		few, many := in.sendCostly("few", 2), in.sendCostly("many", costly)
		in.awaitAnswers(many)
		in.awaitVerdicts(few)
		pods = append(append(pods, few...), many...)
	}))
	t.Log(s.run("pending", ordinary, nil))
	t.Logf("seed %d: accepted %v, rejected %v; %d pods with hostile claims", *seed, in.accepted, in.rejected, len(pods))
	for _, kind := range []string{"ResourceSlice", "DeviceClass", "ResourceClaim"} {
		require.NotZero(t, in.accepted[kind], "no hostile %s reached the scheduler", kind)
		require.NotZero(t, in.rejected[kind], "no %s was beyond the limits", kind)
	}
	require.NoError(t, s.scheduler.Err(), "the scheduler lives")
	log, err := os.ReadFile(s.scheduler.LogFile())
	require.NoError(t, err)
	for line := range strings.Lines(string(log)) {
		require.NotContains(t, line, "Observed a panic")
		require.NotContains(t, line, "panic:")
	}
}

// send creates an object and reports whether the API server took it. It must say
// why not, and must not fail itself.
func (in *input) send(kind string, object metav1.Object) bool {
	t := in.space.T
	t.Helper()
	body, err := json.Marshal(object)
	require.NoError(t, err)
	// Go's type for quantities would bring these into a form that can be read.
	text := strings.ReplaceAll(string(body), rawQuantity, pick(in.generator, rawQuantities...))
	request := cluster.Client.ResourceV1().RESTClient().Post().Resource(strings.ToLower(kind)+map[bool]string{true: "es", false: "s"}[kind == "DeviceClass"]).
		SetHeader("Content-Type", "application/json").Body([]byte(text))
	if kind == "ResourceClaim" {
		request = request.Namespace(in.space.Name)
	}
	if err = request.Do(t.Context()).Error(); err == nil {
		in.accepted[kind]++
		in.created = append(in.created, object.(runtime.Object))
		return true
	}
	require.True(t, apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err), "%s: %v", kind, err)
	in.rejected[kind]++
	return false
}

// sendAll sends slices, classes and so many claims, and a pod for each claim that was taken.
// It returns the names of the pods. None of them may have the devices of the ordinary
// pods.
func (in *input) sendAll(claims int) []string {
	var drivers, classes []string
	for range hostilePools {
		drivers = append(drivers, in.driver())
		for _, slice := range in.slices(drivers[len(drivers)-1]) {
			in.send("ResourceSlice", slice)
		}
	}
	for i := range hostileClasses {
		if class := in.class(drivers[i%len(drivers)]); in.send("DeviceClass", class) {
			classes = append(classes, class.Name)
		}
	}
	var pods []string
	for i := range claims {
		if claim := in.claim(classes); in.send("ResourceClaim", claim) {
			pods = append(pods, in.podFor(fmt.Sprintf("hostile-%03d", i), claim))
		}
	}
	return pods
}

// sendCostly sends claims with selectors that cost as much as they may, for a class
// with some number of devices.
func (in *input) sendCostly(name string, devices int) []string {
	driver := in.driver()
	slice := builder.NodeSlice(in.nodes[0], builder.NumberedDevices("costly", devices)...).OfDriver(driver).Obj()
	slice.Name = in.name(0)
	class := builder.Class(in.name(0), fmt.Sprintf("device.driver == %q", driver))
	require.True(in.space.T, in.send("ResourceSlice", slice) && in.send("DeviceClass", class))
	var pods []string
	for i, claim := range in.costlyClaims(class.Name) {
		if in.send("ResourceClaim", claim) {
			pods = append(pods, in.podFor(fmt.Sprintf("costly-%s-%d", name, i), claim))
		}
	}
	return pods
}

// podFor creates a pod that uses a claim.
func (in *input) podFor(name string, claim *resourceapi.ResourceClaim) string {
	in.space.T.Helper()
	pod := in.space.PodOn(name, map[string]string{fleet.NodePoolLabel: in.space.Name}, []corev1.PodResourceClaim{{Name: "hostile", ResourceClaimName: &claim.Name}})
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	in.space.Create(pod)
	return name
}

// awaitAnswers waits until each of the pods runs or is told clearly why not: what
// about its claim is the matter, or its devices.
func (in *input) awaitAnswers(pods []string) {
	in.space.T.Helper()
	for _, name := range pods {
		in.space.Eventually("have an answer for pod "+name, func(context.Context) error {
			pod, err := in.space.KnownPod(name)
			if err != nil {
				return err
			}
			return answered(pod)
		})
	}
}

// awaitVerdicts waits until it is known of each of the pods whether devices match.
func (in *input) awaitVerdicts(pods []string) {
	in.space.T.Helper()
	for _, name := range pods {
		in.space.Eventually("evaluate the selectors of pod "+name, func(context.Context) error {
			pod, err := in.space.KnownPod(name)
			if err != nil {
				return err
			}
			if reason := harness.Reason(pod); strings.Contains(reason, "takes long to evaluate") {
				return fmt.Errorf("pod %s still waits: %q", name, reason)
			}
			return answered(pod)
		})
	}
}

func answered(pod *corev1.Pod) error {
	if pod.Spec.NodeName != "" {
		return nil
	}
	reason := harness.Reason(pod)
	for _, word := range []string{"claim ", "request ", "requests ", "device class ", "devices"} {
		if strings.Contains(reason, word) {
			return nil
		}
	}
	return fmt.Errorf("pod %s has no node and no clear reason: %q", pod.Name, reason)
}

// remove deletes everything hostile, and waits until no pod is left, so that what
// remains can be checked.
func (in *input) remove() {
	ctx := context.Background()
	require.NoError(in.space.T, cluster.Client.CoreV1().Pods(in.space.Name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	for _, object := range in.created {
		err := cluster.Objects.Delete(ctx, in.space.Name, object)
		require.True(in.space.T, err == nil || apierrors.IsNotFound(err), "%v", err)
	}
}
