package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// SchedulerName is the profile that the pods ask for.
	SchedulerName = "quartermaster"
	// AppLabel groups pods that do the same thing.
	AppLabel = "app"

	containerName = "main"
	image         = "registry.k8s.io/pause:3.10"
)

// Use lets a pod use a claim. Exactly one of Claim and Template is set.
type Use struct {
	// As is the name of the claim inside the pod.
	As string
	// Claim is the name of an existing claim.
	Claim string
	// Template is the name of a template to make a claim from.
	Template string
}

// PodOptions describes a pod.
type PodOptions struct {
	// NodeSelector is the pod's; nil lets it run on any node.
	NodeSelector map[string]string
	// Uses are the claims of the pod and of its only container.
	Uses []Use
	// Extended are the extended resources that the container asks for, by name.
	Extended map[corev1.ResourceName]string
}

// Pod makes a pod with the app label app; the name may differ from it, because
// several pods can do the same thing.
func Pod(name, app string, options PodOptions) *corev1.Pod {
	template := podTemplate(app, options)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: template.Labels},
		Spec:       template.Spec,
	}
}

// InGroup makes a pod one of a PodGroup.
func InGroup(pod *corev1.Pod, group string) *corev1.Pod {
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	return pod
}

// Deployment makes a Deployment of pods; its name is the app label. Updates are
// of no concern here, so that replaced pods go away first.
func Deployment(app string, replicas int32, options PodOptions) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{AppLabel: app}},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Template: podTemplate(app, options),
		},
	}
}

// Job makes a Job that starts all its pods at once; its name is the app label.
func Job(app string, pods int32, options PodOptions) *batchv1.Job {
	template := podTemplate(app, options)
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: batchv1.JobSpec{
			Completions: &pods,
			Parallelism: &pods,
			Template:    template,
		},
	}
}

func podTemplate(app string, options PodOptions) corev1.PodTemplateSpec {
	container := corev1.Container{
		Name:  containerName,
		Image: image,
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
		},
	}
	spec := corev1.PodSpec{
		SchedulerName: SchedulerName,
		NodeSelector:  options.NodeSelector,
	}
	for _, use := range options.Uses {
		reference := corev1.PodResourceClaim{Name: use.As}
		if use.Claim != "" {
			reference.ResourceClaimName = ptr.To(use.Claim)
		}
		if use.Template != "" {
			reference.ResourceClaimTemplateName = ptr.To(use.Template)
		}
		spec.ResourceClaims = append(spec.ResourceClaims, reference)
		container.Resources.Claims = append(container.Resources.Claims, corev1.ResourceClaim{Name: use.As})
	}
	for name, quantity := range options.Extended {
		if container.Resources.Limits == nil {
			container.Resources.Limits = corev1.ResourceList{}
		}
		container.Resources.Requests[name] = resource.MustParse(quantity)
		container.Resources.Limits[name] = resource.MustParse(quantity)
	}
	spec.Containers = []corev1.Container{container}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{AppLabel: app}},
		Spec:       spec,
	}
}
