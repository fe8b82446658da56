package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/checker"
)

// describedObjects bounds how many objects of a kind a failed test shows.
const describedObjects = 12

// tell logs what there is to know about the space of a failed test, once: whatever fails afterwards has the same cause.
func (s *Space) tell() {
	s.T.Helper()
	if !s.told {
		s.told = true
		s.T.Log("\n" + s.describe())
	}
}

// tellIfFailed is tell for the end of a test.
func (s *Space) tellIfFailed() {
	if s.T.Failed() {
		s.tell()
	}
}

// describe asks the API server, because the informers may be the problem, and reads the logs.
func (s *Space) describe() string {
	var b strings.Builder
	ctx, cancel := context.WithTimeout(context.Background(), s.Patience)
	defer cancel()
	objects, err := s.ownObjects(ctx)
	b.WriteString(objects.String())
	if err != nil {
		fmt.Fprintf(&b, "(cannot list all objects of %s: %v)\n", s.Name, err)
	}
	for _, path := range s.logs() {
		content, err := readEnd(path)
		if err != nil {
			fmt.Fprintf(&b, "%v\n", err)
		}
		lines := linesAbout(content, s.Name)
		if path != s.Log { // Every scheduler sees all pods that are on nodes.
			lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, `event for scheduled pod"`) })
		}
		if len(lines) > 0 {
			fmt.Fprintf(&b, "about %s in %s:\n  %s\n", s.Name, path, strings.Join(lines, "\n  "))
		}
	}
	return b.String()
}

// ownObjects are those of one space.
type ownObjects struct {
	pods   []corev1.Pod
	claims []resourceapi.ResourceClaim
	slices []resourceapi.ResourceSlice
}

// ownObjects lists what it can.
func (s *Space) ownObjects(ctx context.Context) (o ownObjects, err error) {
	pods, podsErr := s.Cluster.Client.CoreV1().Pods(s.Name).List(ctx, metav1.ListOptions{})
	if podsErr == nil {
		o.pods = pods.Items
	}
	claims, claimsErr := s.Cluster.Client.ResourceV1().ResourceClaims(s.Name).List(ctx, metav1.ListOptions{})
	if claimsErr == nil {
		o.claims = claims.Items
	}
	all, slicesErr := s.Cluster.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if slicesErr == nil {
		// Not by a field selector: v1alpha2 has none for the driver.
		o.slices = slices.DeleteFunc(all.Items, func(slice resourceapi.ResourceSlice) bool { return slice.Spec.Driver != s.Driver })
	}
	return o, errors.Join(podsErr, claimsErr, slicesErr)
}

func (o ownObjects) String() string {
	var b strings.Builder
	section(&b, "pods", o.pods, describePod)
	section(&b, "claims", o.claims, describeClaim)
	section(&b, "slices", o.slices, describeSlice)
	return b.String()
}

// section shows the first objects, those that are worth a look before the dull ones. Of those about which there is the same to say,
// it names one.
func section[T any](b *strings.Builder, title string, objects []T, describe func(*T) (name, text string, dull bool)) {
	type group struct {
		first string
		dull  bool
		count int
	}
	groups := make(map[string]*group)
	var interesting, dull []string
	for i := range objects {
		name, text, isDull := describe(&objects[i])
		g := groups[text]
		if g == nil {
			g = &group{first: name, dull: isDull}
			groups[text] = g
			if isDull {
				dull = append(dull, text)
			} else {
				interesting = append(interesting, text)
			}
		}
		g.count++
	}
	fmt.Fprintf(b, "%d %s:\n", len(objects), title)
	all := append(interesting, dull...)
	left := len(objects)
	for _, text := range all[:min(len(all), describedObjects)] {
		g := groups[text]
		left -= g.count
		if g.count > 1 {
			g.first += fmt.Sprintf(" and %d others", g.count-1)
		}
		fmt.Fprintf(b, "  %s: %s\n", g.first, text)
	}
	if left > 0 {
		fmt.Fprintf(b, "  and %d more\n", left)
	}
}

func describePod(pod *corev1.Pod) (name, text string, dull bool) {
	return pod.Name, fmt.Sprintf("%s on node %q, nominated %q: %s", pod.Status.Phase, pod.Spec.NodeName,
		pod.Status.NominatedNodeName, Reason(pod)), pod.Spec.NodeName != ""
}

func describeClaim(claim *resourceapi.ResourceClaim) (name, text string, dull bool) {
	var devices, consumers []string
	for _, result := range checker.Results(claim) {
		devices = append(devices, result.Request+"="+result.Pool+"/"+result.Device)
	}
	for _, consumer := range claim.Status.ReservedFor {
		consumers = append(consumers, consumer.Name)
	}
	return claim.Name, fmt.Sprintf("devices [%s], reserved for [%s], finalizers %v, deleted %t", strings.Join(devices, " "),
		strings.Join(consumers[:min(len(consumers), describedObjects)], " "), claim.Finalizers, claim.DeletionTimestamp != nil), len(devices) > 0
}

// describeSlice is about what of a slice can be had.
func describeSlice(slice *resourceapi.ResourceSlice) (name, text string, dull bool) {
	tainted := 0
	for _, device := range slice.Spec.Devices {
		if len(device.Taints) > 0 {
			tainted++
		}
	}
	return slice.Name, fmt.Sprintf("%d devices, %d of them with taints, in generation %d of pool %s", len(slice.Spec.Devices), tainted,
		slice.Spec.Pool.Generation, slice.Spec.Pool.Name), tainted == 0
}
