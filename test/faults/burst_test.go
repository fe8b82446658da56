package faults

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	// nodes is how many there are before makeRoom adds one.
	nodes = 4
)

// Numbers of a burst, times scale.
const (
	devicesPerNode = 8
	// templatePods have a claim with one device each.
	templatePods = 24
	// sharedClaims have one device each, and podsPerClaim pods use each.
	sharedClaims, podsPerClaim = 4, 3
	// latePods are like templatePods; there are not enough devices for all.
	latePods = 12
	// leaving are the pods that are deleted to make room.
	leaving = 4
)

// newSpace makes a space with devices on each node and the template "one".
func newSpace(t *testing.T, name string, nodes int) *harness.Space {
	t.Helper()
	s := cluster.NewSpace(t, name, "", nodes)
	for node := range nodes {
		s.Devices(node, harness.Numbered(devicesPerNode**scale)...)
	}
	s.Create(template(s))
	return s
}

func template(s *harness.Space) *resourceapi.ResourceClaimTemplate {
	return builder.Claim("one", s.Want(1)).Template()
}

// sharedName is the name of a claim that several pods share.
func sharedName(round, claim int) string { return fmt.Sprintf("shared-%d-%02d", round, claim) }

// startBurst creates the pods of a burst, more than there are devices for.
func startBurst(s *harness.Space, round int) {
	s.T.Helper()
	s.CreatePods(fmt.Sprintf("early-%d", round), templatePods**scale)
	for claim := range sharedClaims * *scale {
		name := sharedName(round, claim)
		s.Create(builder.Claim(name, s.Want(1)).Obj())
		for pod := range podsPerClaim {
			s.Create(s.Pod(fmt.Sprintf("%s-user-%d", name, pod), builder.Uses(name)))
		}
	}
	s.CreatePods(fmt.Sprintf("late-%d", round), latePods**scale)
}

// full waits until all devices are held by claims of pods that run, and no other pod is
// on a node. What these are told need not have got through: kube-scheduler writes the
// status of a pod once an attempt, whatever becomes of it.
func full(s *harness.Space) {
	s.T.Helper()
	want := nodes * devicesPerNode * *scale
	s.Eventually(fmt.Sprintf("have all %d devices in use", want), func(context.Context) error {
		used := map[string]bool{}
		var open []string
		for _, pod := range s.Pods() {
			if pod.Spec.NodeName == "" {
				continue
			}
			if err := s.Runs(pod); err != nil {
				open = append(open, err.Error())
				continue
			}
			for _, device := range s.DeviceNames(pod.Name) {
				used[device] = true
			}
		}
		if len(used) != want || len(open) > 0 {
			return fmt.Errorf("%d devices are in use; %d pods are on their way: %s", len(used), len(open), strings.Join(open[:min(len(open), 3)], "; "))
		}
		return nil
	})
}

// makeRoom has some pods leave and publishes devices on one more node, so that there
// is a device for every claim, and a few are left.
func makeRoom(s *harness.Space, node int) {
	s.T.Helper()
	left := 0
	for _, pod := range s.Pods() {
		if left < leaving**scale && pod.Spec.NodeName != "" && pod.Spec.ResourceClaims[0].ResourceClaimTemplateName != nil {
			s.DeletePod(pod.Name)
			left++
		}
	}
	s.AddNode(node, nil)
	s.Devices(node, harness.Numbered(devicesPerNode**scale)...)
}

// allPlaced waits until all pods of the space are on nodes, with their claims. It
// returns how many there are. It does not wait until they run: the simulator of nodes
// forgets pods that were on a node when it was deleted and came back.
func allPlaced(s *harness.Space) int {
	s.T.Helper()
	var pods []*corev1.Pod
	s.Eventually("schedule all pods", func(context.Context) error {
		var open []string
		pods = s.Pods()
		for _, pod := range pods {
			if err := s.Placed(pod); err != nil {
				open = append(open, err.Error())
			}
		}
		if len(open) > 0 {
			return fmt.Errorf("%d of %d are not: %s", len(open), len(pods), strings.Join(open[:min(len(open), 5)], "; "))
		}
		return nil
	})
	return len(pods)
}

// inOrder checks the space when the burst is over.
func inOrder(s *harness.Space) {
	s.T.Helper()
	s.NothingLeaked()
	s.CheckSettled()
	var claims []resourceapi.ResourceClaim
	s.Eventually("have no claim allocated for nobody", func(ctx context.Context) error {
		list, err := cluster.Client.ResourceV1().ResourceClaims(s.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		claims = list.Items
		for _, claim := range claims {
			if claim.Status.Allocation != nil && len(claim.Status.ReservedFor) == 0 {
				return fmt.Errorf("claim %s is allocated and reserved for nobody", claim.Name)
			}
		}
		return nil
	})
	require.NotEmpty(s.T, claims)
}

// clearPods deletes all pods and shared claims, for the next round.
func clearPods(s *harness.Space, round int) {
	s.T.Helper()
	pods := s.Pods()
	for _, pod := range pods {
		s.DeletePod(pod.Name)
	}
	for claim := range sharedClaims * *scale {
		s.Delete(builder.Claim(sharedName(round, claim), s.Want(1)).Obj())
	}
	for _, pod := range pods {
		s.Gone(pod.Name)
	}
	for claim := range sharedClaims * *scale {
		s.ClaimGone(sharedName(round, claim))
	}
}
