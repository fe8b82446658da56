package harness

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/checker"
)

const (
	// describedObjects bounds how many objects of a kind a failed test shows.
	describedObjects = 12
	// describedLog is how many bytes at the end of a log are searched for lines
	// about the space, and describedLines how many of these are shown.
	describedLog   = 4 << 20
	describedLines = 30
)

// Describe is what there is to know about a space when its test fails. It asks
// the API server, because the informers may be the problem.
func (s *Space) Describe() string {
	var b strings.Builder
	ctx, cancel := context.WithTimeout(context.Background(), s.Patience)
	defer cancel()
	pods, err := s.Cluster.Client.CoreV1().Pods(s.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Sprintf("(cannot describe %s: %v)", s.Name, err)
	}
	section(&b, "pods", pods.Items, describePod)
	claims, err := s.Cluster.Client.ResourceV1().ResourceClaims(s.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Sprintf("%s(cannot describe claims: %v)", &b, err)
	}
	section(&b, "claims", claims.Items, describeClaim)
	if s.Log != "" {
		fmt.Fprintf(&b, "last lines about %s in %s:\n%s", s.Name, s.Log, linesAbout(s.Log, s.Name))
	}
	return b.String()
}

// section shows the first objects; those that are worth a look come first.
func section[T any](b *strings.Builder, title string, objects []T, describe func(*T) (text string, dull bool)) {
	var interesting, dull []string
	for i := range objects {
		text, isDull := describe(&objects[i])
		if isDull {
			dull = append(dull, text)
		} else {
			interesting = append(interesting, text)
		}
	}
	lines := append(interesting, dull...)
	fmt.Fprintf(b, "%d %s:\n", len(lines), title)
	for _, line := range lines[:min(len(lines), describedObjects)] {
		fmt.Fprintf(b, "  %s\n", line)
	}
	if more := len(lines) - describedObjects; more > 0 {
		fmt.Fprintf(b, "  and %d more\n", more)
	}
}

func describePod(pod *corev1.Pod) (text string, dull bool) {
	return fmt.Sprintf("%s: %s on node %q, nominated %q: %s", pod.Name, pod.Status.Phase, pod.Spec.NodeName,
		pod.Status.NominatedNodeName, Reason(pod)), pod.Spec.NodeName != ""
}

func describeClaim(claim *resourceapi.ResourceClaim) (text string, dull bool) {
	var devices, consumers []string
	for _, result := range checker.Results(claim) {
		devices = append(devices, result.Request+"="+result.Pool+"/"+result.Device)
	}
	for _, consumer := range claim.Status.ReservedFor {
		consumers = append(consumers, consumer.Name)
	}
	return fmt.Sprintf("%s: devices [%s], reserved for [%s], finalizers %v, deleted %t", claim.Name, strings.Join(devices, " "),
		strings.Join(consumers[:min(len(consumers), describedObjects)], " "), claim.Finalizers, claim.DeletionTimestamp != nil), len(devices) > 0
}

// linesAbout returns the last lines in a log file that contain the text.
func linesAbout(path, text string) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > describedLog {
		if _, err := file.Seek(-describedLog, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, line := range slices.Backward(strings.Split(string(content), "\n")) {
		if strings.Contains(line, text) && len(lines) < describedLines {
			lines = append(lines, line)
		}
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}
