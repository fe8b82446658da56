package builder

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// SchedulerName is the profile that the pods of apps ask for.
	SchedulerName = "quartermaster"
	// AppLabel groups pods that do the same thing.
	AppLabel = "app"

	image = "registry.k8s.io/pause:3.10"
)

// AppPod makes a pod that can run: one of an app, with a container and a scheduler. Its
// name may differ from the app, because several pods can do the same thing.
func AppPod(name, app string, edits ...func(*v1.Pod)) *v1.Pod {
	pod := Pod(name, Container("main", "cpu", "100m"))
	pod.Labels = map[string]string{AppLabel: app}
	pod.Spec.SchedulerName = SchedulerName
	pod.Spec.Containers[0].Image = image
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

// Deployment makes a Deployment of pods of an app, with the app's name. Its updates delete old pods first, because
// updates do not matter here.
func Deployment(app string, replicas int32, edits ...func(*v1.Pod)) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: Namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{AppLabel: app}},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Template: podTemplate(app, edits),
		},
	}
}

// Job makes a Job that starts all pods of an app at once; it has the app's name.
func Job(app string, pods int32, edits ...func(*v1.Pod)) *batchv1.Job {
	template := podTemplate(app, edits)
	template.Spec.RestartPolicy = v1.RestartPolicyNever
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: Namespace},
		Spec:       batchv1.JobSpec{Completions: &pods, Parallelism: &pods, Template: template},
	}
}

func podTemplate(app string, edits []func(*v1.Pod)) v1.PodTemplateSpec {
	pod := AppPod(app, app, edits...)
	return v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec}
}

// Uses returns pod references to existing claims, each under the claim's name.
func Uses(claims ...string) []v1.PodResourceClaim {
	var uses []v1.PodResourceClaim
	for _, claim := range claims {
		uses = append(uses, v1.PodResourceClaim{Name: claim, ResourceClaimName: &claim})
	}
	return uses
}

// FromTemplate returns a pod reference to a template, under the template's name.
func FromTemplate(template string) []v1.PodResourceClaim {
	return []v1.PodResourceClaim{{Name: template, ResourceClaimTemplateName: &template}}
}

// Using lets the pod and all its containers use claims, see Uses and FromTemplate.
func Using(claims ...v1.PodResourceClaim) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, claims...)
		for i := range pod.Spec.Containers {
			resources := &pod.Spec.Containers[i].Resources
			for _, claim := range claims {
				resources.Claims = append(resources.Claims, v1.ResourceClaim{Name: claim.Name})
			}
		}
	}
}

// OnLabeled lets the pod run only on nodes with a label.
func OnLabeled(key, value string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{key: value} }
}

// Extended lets the first container of the pod ask for an extended resource.
func Extended(name v1.ResourceName, quantity string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		resources := &pod.Spec.Containers[0].Resources
		if resources.Limits == nil {
			resources.Limits = v1.ResourceList{}
		}
		resources.Requests[name] = resource.MustParse(quantity)
		resources.Limits[name] = resource.MustParse(quantity)
	}
}

// InGroup makes the pod one of a PodGroup.
func InGroup(group string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group} }
}
