package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
)

// vandal deletes objects of a space at random while pods are being scheduled. What
// nobody else replaces it puts back before the next stroke.
type vandal struct {
	*harness.Space
	random *rand.Rand
	// putBack are what is to be created again, oldest first.
	putBack []func()
	// generations are those of the pools of the nodes.
	generations map[int]int64
	// pods is how many pods have been created in the place of others.
	pods int
	// strokes counts, by name.
	strokes map[string]int
}

// stroke is one way to disturb. It returns false if there was nothing to disturb.
type stroke func(*vandal) bool

// strokes are all of them, by what they hit.
var strokes = map[string]stroke{
	"pods":        (*vandal).hitPod,
	"claims":      (*vandal).hitClaim,
	"templates":   (*vandal).hitTemplate,
	"classes":     (*vandal).hitClass,
	"slices":      (*vandal).hitSlice,
	"generations": (*vandal).replaceSlice,
	"nodes":       (*vandal).hitNode,
}

func newVandal(s *harness.Space) *vandal {
	return &vandal{
		Space:       s,
		random:      rand.New(rand.NewPCG(*seed, 1)),
		generations: map[int]int64{},
		strokes:     map[string]int{},
	}
}

// disturb strikes so many times, each time when the scheduler has got on a little, or
// after a while if it cannot.
func (v *vandal) disturb(times int, what ...string) {
	v.T.Helper()
	for range times {
		v.awaitProgress()
		v.putBackAll()
		name := what[v.random.IntN(len(what))]
		if strokes[name](v) {
			v.strokes[name]++
		}
	}
}

// awaitProgress waits until a pod more is bound or a claim more is allocated, or until
// it is clear that this waits for something to be put back.
func (v *vandal) awaitProgress() {
	const enough = 200 * time.Millisecond
	state := func() [2]int { return [2]int{v.Bound(), v.Allocated()} }
	before := state()
	// That there is none is no failure.
	_ = harness.Poll(v.T.Context(), enough, func(context.Context) error {
		if state() == before {
			return errors.New("no progress")
		}
		return nil
	})
}

// hitPod deletes a pod in whatever state, and creates another one in its place.
func (v *vandal) hitPod() bool {
	pods := v.Pods()
	if len(pods) == 0 {
		return false
	}
	return v.replacePod(pods[v.random.IntN(len(pods))])
}

// replacePod deletes a pod and creates one with another name and the same claims.
func (v *vandal) replacePod(victim *corev1.Pod) bool {
	// What the informer knows may be old, and deleting a pod twice is no error.
	pods := cluster.Client.CoreV1().Pods(v.Name)
	victim, err := pods.Get(v.T.Context(), victim.Name, metav1.GetOptions{})
	if err == nil && victim.DeletionTimestamp == nil {
		err = pods.Delete(v.T.Context(), victim.Name, metav1.DeleteOptions{})
	} else if err == nil {
		return false
	}
	if apierrors.IsNotFound(err) {
		return false
	}
	require.NoError(v.T, err)
	v.pods++
	kind, _, _ := strings.Cut(victim.Name, "-new-")
	v.Create(v.Pod(fmt.Sprintf("%s-new-%03d", kind, v.pods), victim.Spec.ResourceClaims))
	return true
}

// hitClaim deletes a claim. One that was generated is made again by its controller, as a rule: see lostClaim.
func (v *vandal) hitClaim() bool {
	claims, err := cluster.Informers.Resource().V1().ResourceClaims().Lister().ResourceClaims(v.Name).List(labels.Everything())
	require.NoError(v.T, err)
	if len(claims) == 0 {
		return false
	}
	client := cluster.Client.ResourceV1().ResourceClaims(v.Name)
	victim, err := client.Get(v.T.Context(), claims[v.random.IntN(len(claims))].Name, metav1.GetOptions{})
	if err == nil && victim.DeletionTimestamp == nil {
		err = client.Delete(v.T.Context(), victim.Name, metav1.DeleteOptions{})
	} else if err == nil {
		return false
	}
	if apierrors.IsNotFound(err) {
		return false
	}
	require.NoError(v.T, err)
	if len(victim.OwnerReferences) == 0 {
		v.later(func() { v.putBackClaim(victim.Name) })
	}
	return true
}

// putBackClaim creates a claim that has been deleted, as soon as it is gone: one that
// is in use stays until it is not.
func (v *vandal) putBackClaim(name string) {
	err := cluster.Objects.Create(v.T.Context(), v.Name, builder.Claim(name, v.Want(1)).Obj())
	if apierrors.IsAlreadyExists(err) {
		v.later(func() { v.putBackClaim(name) })
		return
	}
	require.NoError(v.T, err)
}

func (v *vandal) hitTemplate() bool {
	v.Delete(template(v.Space))
	v.later(func() { v.Create(template(v.Space)) })
	return true
}

func (v *vandal) hitClass() bool {
	class := builder.Class(v.Name, builder.OfDriver(v.Driver))
	v.Delete(class)
	v.later(func() { v.Create(class) })
	return true
}

// hitSlice withdraws the devices of a node for a while.
func (v *vandal) hitSlice() bool {
	slice := v.current(v.random.IntN(nodes))
	v.Delete(slice)
	v.later(func() { v.Create(slice) })
	return true
}

// replaceSlice publishes the devices of a node as a newer generation, in a new slice.
// The old one goes later, as drivers do it.
func (v *vandal) replaceSlice() bool {
	node := v.random.IntN(nodes)
	old := v.current(node)
	v.generations[node]++
	v.Create(v.current(node))
	v.later(func() { v.Delete(old) })
	return true
}

// current is the newest slice of a node.
func (v *vandal) current(node int) *resourceapi.ResourceSlice {
	slice := v.Slice(node, harness.Numbered(devicesPerNode**scale)...).Obj()
	if generation := v.generations[node]; generation > 0 {
		slice.Name = fmt.Sprintf("%s-%d", slice.Name, generation)
		slice.Spec.Pool.Generation += generation
	}
	return slice
}

// hitNode deletes a node for a while. The pods on it stay: the garbage collector of
// pods waits longer than that.
func (v *vandal) hitNode() bool {
	node := v.random.IntN(nodes)
	v.Delete(fleet.Node(v.Node(node), v.Name, nil))
	v.later(func() { v.AddNode(node, nil) })
	return true
}

// later has something done before the next stroke.
func (v *vandal) later(create func()) { v.putBack = append(v.putBack, create) }

func (v *vandal) putBackAll() {
	earlier := v.putBack
	v.putBack = nil
	for _, create := range earlier {
		create()
	}
}

// restore puts back everything. Claims that are being deleted have to lose the pods that
// use them for that; these are replaced.
func (v *vandal) restore() {
	v.T.Helper()
	v.Eventually("put back everything", func(context.Context) error {
		var open []string
		for _, pod := range v.Pods() {
			if why := v.mend(pod); why != "" {
				open = append(open, pod.Name+" "+why)
			}
		}
		v.putBackAll()
		if len(v.putBack)+len(open) > 0 {
			return fmt.Errorf("%d objects cannot be created yet; pods of a moment ago: %s", len(v.putBack), strings.Join(open, "; "))
		}
		return nil
	})
}

// mend does for a pod what others have to do when its claim is deleted, or the pod itself.
// It returns why the pod has to be looked at again, "" if it has not.
func (v *vandal) mend(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil && pod.Spec.NodeName != "" {
		v.endPod(pod)
		return "was being deleted"
	}
	reference := &pod.Spec.ResourceClaims[0]
	generated := reference.ResourceClaimTemplateName != nil
	claims, err := v.ClaimsOf(pod)
	if err != nil {
		if generated && v.lostClaim(pod, reference) {
			v.replacePod(pod)
			return "had lost its claim"
		}
		return ""
	}
	if claims[0].DeletionTimestamp == nil {
		return ""
	}
	if generated && pod.Spec.NodeName == "" {
		return "was losing its claim"
	}
	if !generated && resourceclaim.IsReservedForPod(pod, claims[0], false) {
		v.replacePod(pod)
	}
	return ""
}

// lostClaim is true for a pod whose claim was made from a template and is gone. Its controller is to
// make another one, but that of 1.37.1 goes on believing in a claim that it created itself, for an
// hour, if it has not looked at the claim since: what is left is to replace the pod.
func (v *vandal) lostClaim(pod *corev1.Pod, reference *corev1.PodResourceClaim) bool {
	name, _, err := resourceclaim.Name(pod, reference)
	if err != nil || name == nil {
		return false // It was not made yet, or is not needed.
	}
	_, err = cluster.Client.ResourceV1().ResourceClaims(v.Name).Get(v.T.Context(), *name, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

// endPod does what the kubelet does when the containers of a deleted pod have ended. The
// simulator of nodes forgets pods that were on a node when it was deleted and came back.
func (v *vandal) endPod(pod *corev1.Pod) {
	err := cluster.Client.CoreV1().Pods(v.Name).Delete(v.T.Context(), pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		require.NoError(v.T, err)
	}
}
