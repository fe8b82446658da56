package files

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/resource"
	resourcev1 "k8s.io/kubernetes/pkg/apis/resource/v1"
	resourcevalidation "k8s.io/kubernetes/pkg/apis/resource/validation"
)

// refused returns an error if the API server would refuse an object because of errs, nil if errs is empty.
func refused(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	var texts []string
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	return fmt.Errorf("an API server would refuse it: %s", strings.Join(texts, "; "))
}

// declared is the generated part of a server's validation of a version, from markers on its types.
type declared[T any] func(ctx context.Context, op operation.Operation, path *field.Path, object, old *T) field.ErrorList

// validated sets the defaults of an object, converts it to the internal type that a server validates, and validates
// it. Both parts of a server's validation may find the same error.
func validated[T, I any](object *T, defaults func(*T), generated declared[T], convert func(*T, *I) error, validate func(*I) field.ErrorList) error {
	internal := new(I)
	if defaults != nil {
		defaults(object)
	}
	if err := convert(object, internal); err != nil {
		return fmt.Errorf("validate it: %w", err)
	}
	errs := validate(internal)
	if generated != nil {
		found := make(map[string]bool)
		for _, err := range errs {
			found[err.Field] = true
		}
		for _, err := range generated(context.Background(), operation.Operation{Type: operation.Create}, nil, object, nil) {
			if !found[err.Field] {
				errs = append(errs, err)
			}
		}
	}
	return refused(errs)
}

func validateClaim(claim *resourceapi.ResourceClaim) error {
	return validated(claim.DeepCopy(), resourcev1.SetObjectDefaults_ResourceClaim, resourcev1.Validate_ResourceClaim, func(in *resourceapi.ResourceClaim, out *resource.ResourceClaim) error {
		return resourcev1.Convert_v1_ResourceClaim_To_resource_ResourceClaim(in, out, nil)
	}, resourcevalidation.ValidateResourceClaim)
}

func validateTemplate(template *resourceapi.ResourceClaimTemplate) error {
	return validated(template.DeepCopy(), resourcev1.SetObjectDefaults_ResourceClaimTemplate, resourcev1.Validate_ResourceClaimTemplate, func(in *resourceapi.ResourceClaimTemplate, out *resource.ResourceClaimTemplate) error {
		return resourcev1.Convert_v1_ResourceClaimTemplate_To_resource_ResourceClaimTemplate(in, out, nil)
	}, resourcevalidation.ValidateResourceClaimTemplate)
}

func validateClass(class *resourceapi.DeviceClass) error {
	return validated(class.DeepCopy(), nil, resourcev1.Validate_DeviceClass, func(in *resourceapi.DeviceClass, out *resource.DeviceClass) error {
		return resourcev1.Convert_v1_DeviceClass_To_resource_DeviceClass(in, out, nil)
	}, resourcevalidation.ValidateDeviceClass)
}

func validatePod(pod *v1.Pod) error {
	return validated(pod.DeepCopy(), corev1.SetObjectDefaults_Pod, nil, func(in *v1.Pod, out *core.Pod) error {
		return corev1.Convert_v1_Pod_To_core_Pod(in, out, nil)
	}, func(pod *core.Pod) field.ErrorList {
		options := podutil.GetValidationOptionsFromPodSpecAndMeta(&pod.Spec, nil, &pod.ObjectMeta, nil)
		options.ResourceIsPod = true
		return corevalidation.ValidatePodCreate(pod, options)
	})
}

// validatePodTemplate validates a pod template at a path of its object.
func validatePodTemplate(template *v1.PodTemplateSpec, path string) error {
	defaults := func(template *v1.PodTemplateSpec) {
		pod := &v1.Pod{Spec: template.Spec}
		corev1.SetObjectDefaults_Pod(pod)
		template.Spec = pod.Spec
	}
	return validated(template.DeepCopy(), defaults, nil, func(in *v1.PodTemplateSpec, out *core.PodTemplateSpec) error {
		return corev1.Convert_v1_PodTemplateSpec_To_core_PodTemplateSpec(in, out, nil)
	}, func(template *core.PodTemplateSpec) field.ErrorList {
		return corevalidation.ValidatePodTemplateSpec(template, field.NewPath(path), podutil.GetValidationOptionsFromPodTemplate(template, nil))
	})
}
