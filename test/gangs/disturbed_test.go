package gangs

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestClaimRefused: as long as the claim of one pod cannot be written none of the gang runs, and no other gang lacks what it
// does not get. When it can be written, all run.
func TestClaimRefused(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "claim-refused", false, 2, 4)
	allow := s.Refuse("resourceclaims/status", "resource.k8s.io", admissionregistrationv1.Update, "!object.metadata.name.startsWith('big-3-') || !has(object.status.allocation)")
	s.group("big", 6)
	pods := s.members("big", 0, 6)
	s.Tried("big-3", 2) // Its claim is refused again and again.
	s.StaysBound(0)
	s.group("small", 4)
	s.Running(s.members("small", 0, 4)...)
	s.deletePods("small-0", "small-1", "small-2", "small-3")
	allow()
	s.Running(pods...)
}

// TestBindingRefused: the claims of all are written when one cannot be bound. The others run, as a pod that is bound stays
// bound, and the last one keeps trying.
func TestBindingRefused(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "binding-refused", false, 2, 2)
	allow := s.RefuseBindings("request.name == 'gang-2'")
	s.group("gang", 4)
	pods := s.members("gang", 0, 4)
	s.Running("gang-0", "gang-1", "gang-3")
	s.Tried("gang-2", 1)
	s.StaysBound(3)
	allow()
	s.Running(pods...)
}

// TestMemberGone: pods are deleted while their gang is scheduled, when so many of its claims are allocated, and others take their
// place. All run in the end.
func TestMemberGone(t *testing.T) {
	t.Parallel()
	for _, after := range []int{0, 1, 4, 10, 16} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			if after != 0 && after != 10 {
				harness.Long(t, "the same at another moment")
			}
			t.Parallel()
			s := newSpace(t, fmt.Sprintf("gone-%d", after), false, 4, 4)
			s.group("gang", 16)
			pods := s.members("gang", 0, 16)
			s.Eventually("have claims of the gang allocated", func(context.Context) error {
				if n := s.Allocated(); n < after {
					return fmt.Errorf("%d of %d are", n, after)
				}
				return nil
			})
			s.deletePods("gang-7", "gang-15")
			pods = slices.DeleteFunc(pods, func(pod string) bool { return pod == "gang-7" || pod == "gang-15" })
			s.RunningSoon(append(pods, s.members("gang", 16, 2)...)...)
		})
	}
}

// TestGroupChanges: minMember grows while a gang waits and while it runs, and the PodGroup is deleted and made again.
func TestGroupChanges(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "changes", false, 2, 3)
	s.group("gang", 7)
	pods := s.members("gang", 0, 4)
	s.Waiting("gang-0", "4 of 7 pods exist (minMember)")
	s.deleteGroup("gang")
	for _, pod := range pods {
		s.Waiting(pod, "there is none of that name")
	}
	s.group("gang", 8)
	s.Waiting("gang-0", "4 of 8 pods exist (minMember)")
	s.patchGroup("gang", `{"spec":{"minMember":3}}`)
	s.RunningSoon(pods...)
	s.patchGroup("gang", `{"spec":{"minMember":7}}`)
	more := s.members("gang", 4, 3)
	s.Waiting(more[0], "2 of 3 pods fit")
	s.StaysBound(4)
	s.patchGroup("gang", `{"spec":{"minMember":6}}`)
	s.Eventually("two more run", func(context.Context) error {
		if n := s.Bound(); n != 6 {
			return fmt.Errorf("%d pods are bound", n)
		}
		return nil
	})
}

// TestOneFitsNowhere: a gang of which one pod fits no node keeps nothing from others, and runs when there is such a node.
func TestOneFitsNowhere(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "nowhere", false, 2, 2)
	s.group("gang", 3)
	s.members("gang", 0, 2)
	elsewhere := in("gang", s.PodOn("gang-2", map[string]string{"there-is": "none"}, builder.FromTemplate("one")))
	s.Create(elsewhere)
	s.Waiting("gang-0", "2 of 3 pods fit")
	s.StaysBound(0)
	s.ClaimAndPod("single", s.Want(1))
	s.RunningSoon("single")
	s.LabelNode(0, "there-is", "none")
	s.RunningSoon("gang-0", "gang-1", "gang-2")
}

// TestMinResourcesLater: a gang is planned once what it wants at least is free in the cluster.
func TestMinResourcesLater(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "resources", false, 1, 4)
	resource := corev1.ResourceName(s.Name + ".example.com/things")
	s.group("gang", 2, func(group *v1alpha1.PodGroup) { group.Spec.MinResources = builder.Resources(string(resource), "2") })
	pods := s.members("gang", 0, 2)
	s.Waiting("gang-0", "less of "+string(resource)+" is free in the cluster")
	s.Waiting("gang-1", "less of "+string(resource)+" is free in the cluster")
	s.StaysBound(0)
	s.Offer(0, string(resource), "2")
	s.RunningSoon(pods...)
}

// TestGated: a gang of 64 waits for one pod with a scheduling gate.
func TestGated(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "gated", false, 8, 8)
	s.group("gang", 64)
	pods := s.members("gang", 0, 63)
	gated := in("gang", s.Pod("gang-63", builder.FromTemplate("one")))
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/gate"}}
	s.Create(gated)
	s.Waiting("gang-5", "pod gang-63 has the scheduling gate example.com/gate")
	s.StaysBound(0)
	harness.Update(t, cluster.Client.CoreV1().Pods(s.Name), "gang-63", func(pod *corev1.Pod) { pod.Spec.SchedulingGates = nil })
	s.RunningSoon(append(pods, "gang-63")...)
}

// TestTwoSchedulers: the gangs of two schedulers wait for the same devices when these start. Each gang runs whole or holds
// nothing for long, and all run one after the other.
func TestTwoSchedulers(t *testing.T) {
	harness.Long(t, "gangs of two schedulers run one after the other")
	t.Parallel()
	const gangs, size = 8, 6
	s := newSpace(t, "schedulers", true, 3, 4)
	s.Patience = 3 * time.Minute
	watch := newHolds(s)
	all := make(map[string][]string)
	for g := range gangs {
		name := fmt.Sprintf("gang-%d-0", g)
		s.group(name, size)
		for i := range size {
			pod := in(name, s.Pod(fmt.Sprintf("%s-%d", name, i), builder.FromTemplate("one")))
			pod.Spec.SchedulerName = fmt.Sprintf("%s-%d", s.Name, g%2)
			s.Create(pod)
			all[name] = append(all[name], pod.Name)
		}
	}
	for i := range 2 {
		profile := fmt.Sprintf("%s-%d", s.Name, i)
		s.StartScheduler(harness.SchedulerOptions{Name: profile, Profile: profile})
	}
	for len(all) > 0 {
		s.Eventually("a gang runs whole", func(context.Context) error {
			for name, pods := range all {
				if err := s.whole(pods); err == nil {
					s.deletePods(pods...)
					delete(all, name)
					return nil
				}
			}
			return fmt.Errorf("none of %d gangs does", len(all))
		})
	}
	times, longest, violations := watch.results()
	t.Logf("%d times claims of a gang were allocated and it did not run with them, for %s at most", times, longest.Round(time.Millisecond))
	require.Empty(t, violations)
}

// whole is nil if all of these pods are bound.
func (s *space) whole(pods []string) error {
	for _, name := range pods {
		pod, err := s.KnownPod(name)
		if err != nil {
			return err
		}
		if pod.Spec.NodeName == "" {
			return fmt.Errorf("pod %s is not bound", name)
		}
	}
	return nil
}

// deleteGroup deletes a PodGroup.
func (s *space) deleteGroup(name string) {
	s.T.Helper()
	client, err := dynamic.NewForConfig(cluster.ControlPlane.AdminConfig())
	require.NoError(s.T, err)
	groups := client.Resource(v1alpha1.SchemeGroupVersion.WithResource("podgroups")).Namespace(s.Name)
	require.NoError(s.T, groups.Delete(s.T.Context(), name, metav1.DeleteOptions{}))
}
