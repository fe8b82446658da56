package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Report waits until a claim is allocated, and then sets a condition of its devices to true, like their driver.
func Report(claim, condition string) Step {
	return Step{
		Does: fmt.Sprintf("report that the devices of claim %s are %s", claim, condition),
		Run: func(ctx context.Context, env *Env) error {
			ctx, cancel := context.WithTimeout(ctx, env.patience)
			defer cancel()
			last := errors.New("nothing was read")
			err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
				if err := env.objects.report(ctx, env.scenario.Name, claim, condition); err == nil || ctx.Err() == nil {
					last = err
				}
				return last == nil, nil
			})
			if err != nil {
				return fmt.Errorf("not done within %s: %w", env.patience, last)
			}
			return nil
		},
	}
}

// errNotAllocated means that the claim has no devices to report about.
var errNotAllocated = errors.New("the claim is not allocated")

// report replaces the status of a claim's devices. It does not wait.
func (o *Objects) report(ctx context.Context, namespace, claim, condition string) error {
	resource, _, err := o.prepare(namespace, &resourceapi.ResourceClaim{})
	if err != nil {
		return err
	}
	content, err := resource.Get(ctx, claim, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read claim %s: %w", claim, err)
	}
	var object resourceapi.ResourceClaim
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, &object); err != nil {
		return fmt.Errorf("read claim %s: %w", claim, err)
	}
	if object.Status.Allocation == nil {
		return fmt.Errorf("report about devices of claim %s: %w", claim, errNotAllocated)
	}
	object.Status.Devices = deviceStatuses(object.Status.Allocation, condition)
	if content.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&object); err != nil {
		return fmt.Errorf("convert claim %s: %w", claim, err)
	}
	content.SetGroupVersionKind(resourceapi.SchemeGroupVersion.WithKind("ResourceClaim"))
	if _, err := resource.UpdateStatus(ctx, content, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("report about devices of claim %s: %w", claim, err)
	}
	return nil
}

// deviceStatuses returns statuses in which a condition of all devices of an allocation is true.
func deviceStatuses(allocation *resourceapi.AllocationResult, condition string) []resourceapi.AllocatedDeviceStatus {
	var statuses []resourceapi.AllocatedDeviceStatus
	for _, result := range allocation.Devices.Results {
		statuses = append(statuses, resourceapi.AllocatedDeviceStatus{
			Driver: result.Driver, Pool: result.Pool, Device: result.Device, ShareID: (*string)(result.ShareID),
			Conditions: []metav1.Condition{{
				Type: condition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now()),
				Reason: "Simulated", Message: "reported by the playground in the name of " + result.Driver,
			}},
		})
	}
	return statuses
}
