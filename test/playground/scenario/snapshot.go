package scenario

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Snapshot has the objects of one namespace and the cluster's slices for expectations, all read at about the same
// time. They must not be changed.
type Snapshot struct {
	Namespace string
	Pods      []*corev1.Pod
	Claims    []*resourceapi.ResourceClaim
	Events    []*corev1.Event
	Slices    []*resourceapi.ResourceSlice
}

// Source reads snapshots.
type Source interface {
	Snapshot(ctx context.Context, namespace string) (*Snapshot, error)
}

// LiveSource reads snapshots from the API server.
type LiveSource struct {
	Client kubernetes.Interface
}

// Snapshot lists everything; the lists are consistent each, not together.
func (s LiveSource) Snapshot(ctx context.Context, namespace string) (*Snapshot, error) {
	var options metav1.ListOptions
	pods, err := s.Client.CoreV1().Pods(namespace).List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("read pods of namespace %s: %w", namespace, err)
	}
	claims, err := s.Client.ResourceV1().ResourceClaims(namespace).List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("read claims of namespace %s: %w", namespace, err)
	}
	events, err := s.Client.CoreV1().Events(namespace).List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("read events of namespace %s: %w", namespace, err)
	}
	slices, err := s.Client.ResourceV1().ResourceSlices().List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("read resource slices: %w", err)
	}
	return &Snapshot{
		Namespace: namespace,
		Pods:      pointers(pods.Items),
		Claims:    pointers(claims.Items),
		Events:    pointers(events.Items),
		Slices:    pointers(slices.Items),
	}, nil
}

func pointers[T any](items []T) []*T {
	result := make([]*T, len(items))
	for index := range items {
		result[index] = &items[index]
	}
	return result
}

// claim returns the claim with a name, or nil.
func (s *Snapshot) claim(name string) *resourceapi.ResourceClaim {
	for _, claim := range s.Claims {
		if claim.Name == name {
			return claim
		}
	}
	return nil
}

// device returns a device in the newest generation of its pool that has it, or
// nil if no slice holds it.
func (s *Snapshot) device(result resourceapi.DeviceRequestAllocationResult) *resourceapi.Device {
	var found *resourceapi.Device
	var generation int64
	for _, slice := range s.Slices {
		if slice.Spec.Driver != result.Driver || slice.Spec.Pool.Name != result.Pool {
			continue
		}
		for index := range slice.Spec.Devices {
			if slice.Spec.Devices[index].Name == result.Device && slice.Spec.Pool.Generation >= generation {
				found, generation = &slice.Spec.Devices[index], slice.Spec.Pool.Generation
			}
		}
	}
	return found
}

// eventTexts returns the texts of the events about a pod, oldest first as listed.
func (s *Snapshot) eventTexts(pod *corev1.Pod) []string {
	var texts []string
	for _, event := range s.Events {
		if event.InvolvedObject.UID == pod.UID {
			texts = append(texts, event.Reason+": "+event.Message)
		}
	}
	return texts
}
