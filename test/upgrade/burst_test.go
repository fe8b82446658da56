package upgrade

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// A part of a burst: pods with a claim for one device, pods with two such claims, pods that share
// a claim, and a gang.
const (
	single, double, sharers, gang = 16, 2, 4, 4
	partPods                      = single + double + sharers + gang
	partDevices                   = single + 2*double + 1 + gang
	nodes                         = 5
)

// space is the part of the cluster that belongs to one test.
type space struct {
	*harness.Space
	// left is how many devices nobody needs.
	left int
}

// newSpace makes a space with devices for so many parts of a burst, and more than one for each node
// besides: the last pod that wants two finds both.
func newSpace(t *testing.T, name string, parts int) *space {
	t.Helper()
	require.NoError(t, manifests.Apply(t.Context(), cluster.ControlPlane.AdminConfig(), manifests.PodGroups, manifests.ApplyOptions{}))
	s := &space{Space: cluster.NewSpace(t, name, "", nodes)}
	s.Patience = harness.TakeoverPatience
	perNode := parts*partDevices/nodes + 2
	s.left = perNode*nodes - parts*partDevices
	for node := range nodes {
		s.Devices(node, harness.Numbered(perNode)...)
	}
	for _, template := range []string{"one", "another"} {
		s.Create(builder.Claim(template, s.Want(1)).Template())
	}
	return s
}

// createPart creates the pods of a part.
func (s *space) createPart(part int) {
	s.T.Helper()
	s.CreatePods(fmt.Sprintf("single-%d", part), single)
	for i := range double {
		s.Create(s.Pod(fmt.Sprintf("double-%d-%d", part, i), append(builder.FromTemplate("one"), builder.FromTemplate("another")...)))
	}
	shared := fmt.Sprintf("shared-%d", part)
	s.Create(builder.Claim(shared, s.Want(1)).Obj())
	for i := range sharers {
		s.Create(s.Pod(fmt.Sprintf("%s-%d", shared, i), builder.Uses(shared)))
	}
	s.gang(fmt.Sprintf("gang-%d", part), gang)
}

// gang creates a PodGroup and its pods, and returns their names.
func (s *space) gang(name string, pods int) (names []string) {
	s.T.Helper()
	s.Create(&v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PodGroupSpec{MinMember: int32(pods)}})
	for i := range pods {
		pod := s.Pod(fmt.Sprintf("%s-%d", name, i), builder.FromTemplate("one"))
		pod.Labels[v1alpha1.PodGroupLabel] = name
		s.Create(pod)
		names = append(names, pod.Name)
	}
	return names
}

// bindAtLeast waits until so many pods are bound.
func (s *space) bindAtLeast(pods int) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("bind %d pods", pods), func(context.Context) error {
		if bound := s.Bound(); bound < pods {
			return fmt.Errorf("%d are bound, for instance not %s", bound, s.unbound())
		}
		return nil
	})
}

// unbound is the name of a pod on no node, with its reason.
func (s *space) unbound() string {
	for _, pod := range s.Pods() {
		if pod.Spec.NodeName == "" {
			return fmt.Sprintf("pod %s: %s", pod.Name, harness.Reason(pod))
		}
	}
	return "none"
}

// runAll waits until all pods run, and there are so many.
func (s *space) runAll(count int) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("run all %d pods", count), func(context.Context) error {
		pods := s.Pods()
		for _, pod := range pods {
			if err := s.Runs(pod); err != nil {
				return err
			}
		}
		if len(pods) != count {
			return fmt.Errorf("there are %d pods", len(pods))
		}
		return nil
	})
}

// goesAway deletes all pods, and waits until no claim is allocated, reserved or protected any more, and
// those of templates are gone: nothing that either release has written keeps anything.
func (s *space) goesAway() {
	s.T.Helper()
	s.CheckSettled()
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	require.NoError(s.T, cluster.Client.CoreV1().Pods(s.Name).DeleteCollection(s.T.Context(), now, metav1.ListOptions{}))
	s.Eventually("see all pods and what they used go", func(ctx context.Context) error {
		if pods := s.Pods(); len(pods) > 0 {
			return fmt.Errorf("%d pods are left, for instance %s", len(pods), pods[0].Name)
		}
		claims, err := cluster.Client.ResourceV1().ResourceClaims(s.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range claims.Items {
			if err := isFree(&claims.Items[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// isFree is nil if a claim was made by the test and is as if nobody had ever used it.
func isFree(claim *resourceapi.ResourceClaim) error {
	switch status := claim.Status; {
	case len(claim.OwnerReferences) > 0:
		return fmt.Errorf("claim %s is left, with finalizers %v", claim.Name, claim.Finalizers)
	case status.Allocation != nil || len(status.ReservedFor) > 0 || len(claim.Finalizers) > 0:
		return fmt.Errorf("claim %s is allocated: %t, reserved for %v, with finalizers %v", claim.Name, status.Allocation != nil, status.ReservedFor, claim.Finalizers)
	}
	return nil
}

// noNominations fails the test if a pod that runs is nominated for a node: that would be kept for it.
func (s *space) noNominations() {
	s.T.Helper()
	for _, pod := range s.Pods() {
		if pod.Status.Phase == corev1.PodRunning && pod.Status.NominatedNodeName != "" {
			require.Equal(s.T, pod.Spec.NodeName, pod.Status.NominatedNodeName, "pod %s runs, and is nominated for another node", pod.Name)
		}
	}
}

// deletePods deletes pods at once. No pod may get one of these names afterwards: KWOK, which ends pods
// that are deleted, deletes by name, and may be late.
func (s *space) deletePods(names ...string) {
	s.T.Helper()
	for _, name := range names {
		require.NoError(s.T, cluster.Client.CoreV1().Pods(s.Name).Delete(s.T.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	}
}

// createPods creates pods with a claim of their own at the same time, for some schedulers in turn.
func (s *space) createPods(prefix string, count int, profiles []string) {
	s.T.Helper()
	const atATime = 20
	errs := make([]error, count)
	var creators sync.WaitGroup
	for first := range atATime {
		creators.Go(func() {
			for i := first; i < count; i += atATime {
				pod := s.Pod(fmt.Sprintf("%s-%03d", prefix, i), builder.FromTemplate("one"))
				pod.Spec.SchedulerName = profiles[i%len(profiles)]
				errs[i] = cluster.Objects.Create(s.T.Context(), s.Name, pod)
			}
		})
	}
	creators.Wait()
	require.NoError(s.T, errors.Join(errs...))
}

// deleteClaims deletes all claims that are left, which nobody uses.
func (s *space) deleteClaims() {
	s.T.Helper()
	require.NoError(s.T, cluster.Client.ResourceV1().ResourceClaims(s.Name).DeleteCollection(s.T.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
}
