package gangs

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
)

// onOurNodes has pods scheduled by the test's scheduler on the test's nodes. It is all that is changed of examples: the
// cluster has nodes of other tests as well.
func (s *space) onOurNodes(pod *corev1.PodSpec) {
	pod.SchedulerName = s.Profile
	pod.NodeSelector = map[string]string{fleet.NodePoolLabel: s.Name}
}

// cpuNode adds a node that has so many CPUs and no devices.
func (s *space) cpuNode(i int, cpus string) {
	s.T.Helper()
	node := fleet.Node(s.Node(i), s.Name, nil)
	node.Status.Capacity[corev1.ResourceCPU] = resource.MustParse(cpus)
	node.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse(cpus)
	s.Create(node)
}

// TestNginx is the example in the documents of scheduler-plugins (README of its plugin Coscheduling): six pods of a ReplicaSet, in
// clusters with room for three of them, and for more. The ReplicaSet controller makes the pods.
func TestNginx(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cpus      string
		minMember int32
		run       int // of six pods that take three CPUs each
		phase     v1alpha1.PodGroupPhase
		why       []string // the others wait
	}{
		"room-for-three":           {cpus: "10", minMember: 3, run: 3, phase: v1alpha1.PodGroupRunning, why: []string{"Insufficient cpu"}},
		"room-for-three-of-four":   {cpus: "10", minMember: 4, run: 0, phase: v1alpha1.PodGroupScheduling, why: []string{"3 of 4 pods fit", "1 node: Insufficient cpu"}},
		"room-for-five":            {cpus: "16", minMember: 3, run: 5, phase: v1alpha1.PodGroupRunning, why: []string{"Insufficient cpu"}},
		"room-for-all":             {cpus: "18", minMember: 3, run: 6, phase: v1alpha1.PodGroupRunning},
		"room-for-five-of-six":     {cpus: "16", minMember: 6, run: 0, phase: v1alpha1.PodGroupScheduling, why: []string{"5 of 6 pods fit", "1 node: Insufficient cpu"}},
		"more-wanted-than-created": {cpus: "32", minMember: 7, run: 0, phase: v1alpha1.PodGroupPending, why: []string{"6 of 7 pods exist (minMember)"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t, "nginx-"+name, false, 0, 0)
			s.cpuNode(0, test.cpus)
			s.group("nginx", test.minMember, func(group *v1alpha1.PodGroup) { group.Spec.ScheduleTimeoutSeconds = ptr.To[int32](10) })
			s.Create(s.nginx())
			s.Eventually(fmt.Sprintf("see %d of 6 pods run", test.run), func(context.Context) error { return s.runAndWait(6, test.run, test.why...) })
			s.Eventually("see the group "+string(test.phase), func(ctx context.Context) error { return s.inPhase(ctx, "nginx", test.phase) })
			require.NoError(t, s.runAndWait(6, test.run, test.why...), "nothing has changed meanwhile")
			s.cpuNode(1, "32")
			all := 6
			if test.minMember > 6 {
				all = 0
			}
			s.Soon(fmt.Sprintf("see %d of 6 pods run with more room", all), func(context.Context) error { return s.runAndWait(6, all, test.why...) })
		})
	}
}

// nginx is the ReplicaSet of the example.
func (s *space) nginx() *appsv1.ReplicaSet {
	takes := builder.Resources("cpu", "3000m", "memory", "500Mi")
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Name: "nginx", Labels: map[string]string{"app": "nginx", v1alpha1.PodGroupLabel: "nginx"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "nginx", Image: "nginx", Resources: corev1.ResourceRequirements{Limits: takes, Requests: takes},
		}}},
	}
	s.onOurNodes(&template.Spec)
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "nginx", Labels: map[string]string{"app": "nginx"}},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To[int32](6), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "nginx"}}, Template: template,
		},
	}
}

// runAndWait is nil if there are so many pods of which so many run, and all others say why they do not.
func (s *space) runAndWait(pods, run int, why ...string) error {
	all, running := s.Pods(), 0
	if len(all) != pods {
		return fmt.Errorf("there are %d pods", len(all))
	}
	for _, pod := range all {
		if pod.Spec.NodeName == "" {
			if err := harness.Waits(pod, why...); err != nil {
				return err
			}
			continue
		}
		if err := s.Runs(pod); err != nil {
			return err
		}
		running++
	}
	if running != run {
		return fmt.Errorf("%d pods run", running)
	}
	return nil
}

// inPhase is nil if a PodGroup is in a phase.
func (s *space) inPhase(ctx context.Context, name string, phase v1alpha1.PodGroupPhase) error {
	client, err := dynamic.NewForConfig(cluster.ControlPlane.AdminConfig())
	if err != nil {
		return err
	}
	group, err := client.Resource(v1alpha1.SchemeGroupVersion.WithResource("podgroups")).Namespace(s.Name).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if found := group.Object["status"]; found != nil && found.(map[string]any)["phase"] == string(phase) {
		return nil
	}
	return fmt.Errorf("the status of PodGroup %s is %v", name, group.Object["status"])
}

// lasts has the pods of a Job run until they are deleted, and then take their time to end.
var lasts = map[string]string{"pod-complete.stage.kwok.x-k8s.io/delay": "1h", "pod-delete.stage.kwok.x-k8s.io/delay": "3s"}

// job makes a Job with an index for each of its pods, of which each takes a device if it is to. The pods are of a gang.
func (s *space) job(name, gang string, pods int32, device bool) *batchv1.Job {
	job := builder.Job(name, pods)
	job.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	job.Spec.Template.Labels[v1alpha1.PodGroupLabel] = gang
	if device {
		pod := &corev1.Pod{Spec: job.Spec.Template.Spec}
		builder.Using(builder.FromTemplate("one")...)(pod)
		job.Spec.Template.Spec = pod.Spec
	}
	s.onOurNodes(&job.Spec.Template.Spec)
	return job
}

// TestIndexedJob: the pods of a Job wait for each other, and run to their end. The Job controller makes them.
func TestIndexedJob(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "job", false, 1, 3)
	s.group("train", 4)
	s.Create(s.job("train", "train", 4, true))
	s.Eventually("see the Job wait", func(context.Context) error {
		return s.runAndWait(4, 0, "3 of 4 pods fit: 1 more device of class "+s.Name)
	})
	require.Zero(t, s.Allocated())
	s.AddNode(1, nil)
	s.Devices(1, harness.Numbered(1)...)
	s.Eventually("see the Job end", func(ctx context.Context) error {
		job, err := cluster.Client.BatchV1().Jobs(s.Name).Get(ctx, "train", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if job.Status.CompletedIndexes != "0-3" {
			return fmt.Errorf("indexes %q of the Job are complete", job.Status.CompletedIndexes)
		}
		return nil
	})
	s.Eventually("see the group end", func(ctx context.Context) error { return s.inPhase(ctx, "train", v1alpha1.PodGroupFinished) })
}

// TestJobSet: the Jobs of a JobSet (jobset.sigs.k8s.io) are one gang: a leader without devices, and two Jobs of two workers. The test
// makes the Jobs as the JobSet controller does, with names and labels of its own, and makes them anew when the JobSet restarts; their pods
// are made by the Job controller.
func TestJobSet(t *testing.T) {
	t.Parallel()
	const (
		set, pods    = "set", 5
		attemptLabel = "jobset.sigs.k8s.io/restart-attempt"
	)
	s := newSpace(t, "jobset", false, 2, 2)
	s.group(set, pods)
	create := func(attempt int) {
		for replicated, jobs := range map[string]int{"leader": 1, "workers": 2} {
			for index := range jobs {
				job := s.job(fmt.Sprintf("%s-%s-%d", set, replicated, index), set, int32(jobs), replicated == "workers")
				labels := map[string]string{
					"jobset.sigs.k8s.io/jobset-name": set, "jobset.sigs.k8s.io/replicatedjob-name": replicated,
					"jobset.sigs.k8s.io/job-index": fmt.Sprint(index), attemptLabel: fmt.Sprint(attempt),
				}
				for key, value := range labels {
					job.Spec.Template.Labels[key] = value
				}
				job.Labels = labels
				job.Spec.Template.Annotations = lasts
				job.Spec.Template.Spec.Subdomain = set
				s.Create(job)
			}
		}
	}
	s.ClaimAndPod("other", s.Want(1))
	s.Running("other")
	create(0)
	s.Eventually("see all Jobs wait", func(context.Context) error {
		return s.waitWithout(pods, "other", "4 of 5 pods fit: 1 more device of class "+s.Name)
	})
	require.Equal(t, 1, s.Allocated(), "that of the other pod")
	s.deletePods("other")
	s.Eventually("see all Jobs run", func(context.Context) error { return s.runAndWait(pods, pods) })

	// As long as the pods of before have the devices, no pod of the new gang gets a node, not even the leader.
	background := metav1.DeletePropagationBackground
	require.NoError(t, cluster.Client.BatchV1().Jobs(s.Name).DeleteCollection(t.Context(), metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{}))
	create(1)
	s.Eventually("see all Jobs run again", func(context.Context) error {
		ending, started := 0, 0
		for _, pod := range s.Pods() {
			isNew := pod.Labels[attemptLabel] == "1"
			if isNew && pod.Spec.NodeName != "" {
				started++
			}
			if !isNew && pod.Status.Phase == corev1.PodRunning {
				ending++
			}
		}
		require.False(t, ending == pods && started > 0, "%d pods were started beside %d of before", started, ending)
		return s.runAndWait(pods, pods)
	})
}

// waitWithout is runAndWait where all wait but one pod that is none of them.
func (s *space) waitWithout(pods int, but, why string) error {
	n := 0
	for _, pod := range s.Pods() {
		if pod.Name == but {
			continue
		}
		if err := harness.Waits(pod, why); err != nil {
			return err
		}
		n++
	}
	if n != pods {
		return fmt.Errorf("%d pods wait", n)
	}
	return nil
}
