package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
)

func TestPreemptsForOneDevice(t *testing.T) {
	t.Parallel()
	s := newPreemptionSpace(t, "preempt-one-device", 1)
	s.Devices(0, harness.Numbered(1)...)
	s.Create(builder.Claim("device", s.Want(1)).Template(),
		endsAfter(s.Pod("victim", builder.FromTemplate("device")), "1s"))
	s.Running("victim")
	victim := s.LivePod("victim")

	s.Create(ofClass(s.Pod("preemptor", builder.FromTemplate("device")), important))
	s.Eventually("the victim says who takes its device", func(ctx context.Context) error {
		pod, err := cluster.Client.CoreV1().Pods(s.Name).Get(ctx, "victim", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.DisruptionTarget && strings.Contains(condition.Message, s.Node(0)+"/gpu-0 of claim "+s.Name+"/victim-") {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", pod.Status.Conditions)
	})
	s.Gone("victim")
	s.Running("preemptor")
	require.Equal(t, []string{s.Node(0) + "/gpu-0"}, s.DeviceNames("preemptor"))
	s.Eventually("an event says so as well", func(ctx context.Context) error {
		events, err := cluster.Client.CoreV1().Events(s.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.InvolvedObject.UID == victim.UID && event.Reason == "Preempted" && strings.Contains(event.Message, "has priority 1000 and takes") {
				return nil
			}
		}
		return fmt.Errorf("there is none among %d", len(events.Items))
	})
}

// TestPreemptsForSharedDevices has one pod of higher priority come to a node that is full in different ways.
func TestPreemptsForSharedDevices(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		publish func(s *harness.Space)
		// victims are low pods by name, each with its claims; stay are those that have to stay.
		victims, stay map[string][]string
		claims        func(s *harness.Space) map[string]*builder.RequestBuilder
	}{
		"partition": {
			publish: func(s *harness.Space) {
				s.Create(s.Slice(0).Counters("memory", "gi", "4").Part(0, 2).Obj(), s.Slice(0).Part(1, 2).Devices(
					builder.Device("whole").Attr("size", 4).Consumes("memory", "gi", "4"),
					builder.Device("half-0").Attr("size", 2).Consumes("memory", "gi", "2"),
					builder.Device("half-1").Attr("size", 2).Consumes("memory", "gi", "2")).Obj())
			},
			victims: map[string][]string{"a": {"half-a"}, "b": {"half-b"}},
			claims: func(s *harness.Space) map[string]*builder.RequestBuilder {
				half := s.Attribute("size") + " == 2"
				return map[string]*builder.RequestBuilder{"half-a": s.Want(1, half), "half-b": s.Want(1, half), "wanted": s.Want(1, s.Attribute("size")+" == 4")}
			},
		},
		"share": {
			publish: func(s *harness.Space) {
				s.Devices(0, builder.Device("gpu-0").Capacity("memory", "8Gi").Shared())
			},
			victims: map[string][]string{"a": {"five"}},
			stay:    map[string][]string{"b": {"two"}},
			claims: func(s *harness.Space) map[string]*builder.RequestBuilder {
				return map[string]*builder.RequestBuilder{"five": s.Want(1).Capacity("memory", "5Gi"), "two": s.Want(1).Capacity("memory", "2Gi"),
					"wanted": s.Want(1).Capacity("memory", "4Gi")}
			},
		},
		"two claims": {
			publish: func(s *harness.Space) { s.Devices(0, harness.Numbered(3)...) },
			victims: map[string][]string{"a": {"first", "second"}},
			stay:    map[string][]string{"b": {}},
			claims: func(s *harness.Space) map[string]*builder.RequestBuilder {
				return map[string]*builder.RequestBuilder{"first": s.Want(1), "second": s.Want(1), "wanted": s.Want(3)}
			},
		},
		"shared claim": {
			publish: func(s *harness.Space) { s.Devices(0, harness.Numbered(1)...) },
			victims: map[string][]string{"a": {"both"}, "b": {"both"}},
			claims: func(s *harness.Space) map[string]*builder.RequestBuilder {
				return map[string]*builder.RequestBuilder{"both": s.Want(1), "wanted": s.Want(1)}
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newPreemptionSpace(t, "preempt-sharing-"+strings.ReplaceAll(name, " ", "-"), 1)
			test.publish(s)
			for name, request := range test.claims(s) {
				s.Create(builder.Claim(name, request).Obj())
			}
			for _, pods := range []map[string][]string{test.victims, test.stay} {
				for name, claims := range pods {
					s.Create(endsAfter(s.Pod(name, builder.Uses(claims...)), "200ms"))
					s.Running(name)
				}
			}
			s.Create(ofClass(s.Pod("preemptor", builder.Uses("wanted")), important))
			s.Running("preemptor")
			for name := range test.victims {
				s.Gone(name)
			}
			for name := range test.stay {
				s.Running(name)
			}
		})
	}
}

// TestPreemptsForNetworkAttachedDevices: the one who is in the way runs on another node.
func TestPreemptsForNetworkAttachedDevices(t *testing.T) {
	t.Parallel()
	s := newPreemptionSpace(t, "preempt-network", 3)
	s.Create(builder.Slice(s.Name).OfDriver(s.Driver).OnLabeled(fleet.NodePoolLabel, s.Name).Devices(harness.Numbered(2)...).Obj())
	s.Create(builder.Claim("device", s.Want(1)).Template(),
		endsAfter(s.PodOnNode("cheap", 1, builder.FromTemplate("device")), "1s"),
		ofClass(s.PodOnNode("dear", 2, builder.FromTemplate("device")), important))
	s.Running("cheap", "dear")

	s.Create(ofClass(s.PodOnNode("preemptor", 0, builder.FromTemplate("device")), important))
	s.Gone("cheap")
	s.Running("preemptor", "dear")

	s.Create(ofClass(s.PodOnNode("second", 0, builder.FromTemplate("device")), important))
	s.Waiting("second", "2 held by other claims", "Preemption is not helpful for scheduling")
}

func TestPreemptsForExtendedResources(t *testing.T) {
	t.Parallel()
	s := newPreemptionSpace(t, "preempt-extended", 1)
	resource := corev1.ResourceName(s.Driver + "/gpu")
	class := builder.Class(s.Name+"-extended", builder.OfDriver(s.Driver))
	name := string(resource)
	class.Spec.ExtendedResourceName = &name
	s.Create(class)
	s.Devices(0, harness.Numbered(1)...)
	victim, preemptor := s.Pod("victim", nil), ofClass(s.Pod("preemptor", nil), important)
	builder.Extended(resource, "1")(victim)
	builder.Extended(resource, "1")(preemptor)
	s.Create(endsAfter(victim, "200ms"))
	s.Running("victim")
	s.Create(preemptor)
	s.Gone("victim")
	s.Running("preemptor")
}

// TestPreemptionObservesDisruptionBudgets: upstream prefers victims that no budget protects, and so does this scheduler.
func TestPreemptionObservesDisruptionBudgets(t *testing.T) {
	t.Parallel()
	s := newPreemptionSpace(t, "preempt-budget", 2)
	s.Devices(0, harness.Numbered(1)...)
	s.Devices(1, harness.Numbered(1)...)
	protected := s.PodOnNode("protected", 0, builder.FromTemplate("device"))
	protected.Labels = map[string]string{"app": "protected"}
	none := intstr.FromInt32(0)
	_, err := cluster.Client.PolicyV1().PodDisruptionBudgets(s.Name).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "protected"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &none, Selector: &metav1.LabelSelector{MatchLabels: protected.Labels}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	s.Create(builder.Claim("device", s.Want(1)).Template(), protected,
		ofClass(s.PodOnNode("open", 1, builder.FromTemplate("device")), ""))
	s.Running("protected", "open")
	s.Create(ofClass(s.Pod("preemptor", builder.FromTemplate("device")), important))
	s.Gone("open")
	s.Running("preemptor", "protected")
}

func TestPreemptionPolicyNever(t *testing.T) {
	t.Parallel()
	s := newPreemptionSpace(t, "preempt-never", 1)
	s.Devices(0, harness.Numbered(1)...)
	s.Create(builder.Claim("device", s.Want(1)).Template(), s.Pod("holder", builder.FromTemplate("device")))
	s.Running("holder")
	s.Create(ofClass(s.Pod("patient", builder.FromTemplate("device")), patient))
	s.Waiting("patient", "1 device matches: 1 asked; 0 free; 1 held by another claim", "not eligible due to preemptionPolicy=Never")
	s.Running("holder")
}
