package compat

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// newObject makes an object in the version of the release.
func newObject(kind, name string, fields map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	for field, value := range fields {
		object.Object[field] = value
	}
	object.SetAPIVersion(resourceOf("").GroupVersion().String())
	object.SetKind(kind)
	object.SetName(name)
	return object
}

// createClass creates the class of the driver, replacing the one that there is. Its claims
// are for nodes with the given labels only; nil stands for all.
func (d *driver) createClass(suitable map[string]string) {
	d.space.T.Helper()
	fields := map[string]any{}
	for key, value := range suitable {
		selector, err := runtime.DefaultUnstructuredConverter.ToUnstructured(builder.NodeSelector(key, value))
		require.NoError(d.space.T, err)
		fields["suitableNodes"] = selector
	}
	kind, resource := "DeviceClass", "deviceclasses"
	content := map[string]any{"spec": fields}
	if tested.claims == api.V1alpha2 {
		kind, resource, content = "ResourceClass", "resourceclasses", fields
		content["driverName"] = d.name
	}
	classes := d.client.Resource(resourceOf(resource))
	if err := classes.Delete(d.space.T.Context(), d.class, metav1.DeleteOptions{}); err != nil {
		require.True(d.space.T, apierrors.IsNotFound(err), "%v", err)
	}
	_, err := classes.Create(d.space.T.Context(), newObject(kind, d.class, content), metav1.CreateOptions{})
	require.NoError(d.space.T, err)
}

// claimSpec is that of a claim which this driver has to allocate.
func (d *driver) claimSpec(mode string) map[string]any {
	if tested.claims == api.V1alpha2 {
		return map[string]any{"resourceClassName": d.class, "allocationMode": mode}
	}
	return map[string]any{
		"controller": d.name,
		"devices":    map[string]any{"requests": []any{map[string]any{"name": "gpu", "deviceClassName": d.class}}},
	}
}

const waitForFirstConsumer = "WaitForFirstConsumer"

// createClaim creates a claim that is allocated when a pod needs it.
func (d *driver) createClaim(name string) { d.createClaimOf(name, waitForFirstConsumer) }

func (d *driver) createClaimOf(name, mode string) {
	d.space.T.Helper()
	_, err := d.resource("resourceclaims").Create(d.space.T.Context(), newObject("ResourceClaim", name, map[string]any{"spec": d.claimSpec(mode)}), metav1.CreateOptions{})
	require.NoError(d.space.T, err)
}

// createTemplate creates a template of such claims.
func (d *driver) createTemplate(name string) {
	d.space.T.Helper()
	template := newObject("ResourceClaimTemplate", name, map[string]any{"spec": map[string]any{"spec": d.claimSpec(waitForFirstConsumer)}})
	_, err := d.resource("resourceclaimtemplates").Create(d.space.T.Context(), template, metav1.CreateOptions{})
	require.NoError(d.space.T, err)
}

// claim reads a claim as the server has it.
func (d *driver) claim(name string) *unstructured.Unstructured {
	d.space.T.Helper()
	claim, err := d.resource("resourceclaims").Get(d.space.T.Context(), name, metav1.GetOptions{})
	require.NoError(d.space.T, err)
	return claim
}

// context reads the context of a pod; nil if there is none.
func (d *driver) context(ctx context.Context, pod string) (*api.PodSchedulingContext, error) {
	object, err := d.resource("podschedulingcontexts").Get(ctx, pod, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := &api.PodSchedulingContext{}
	return found, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, found)
}

// asked waits until the scheduler has asked about the pod.
func (d *driver) asked(pod string) *api.PodSchedulingContext {
	d.space.T.Helper()
	var found *api.PodSchedulingContext
	d.space.Eventually("ask drivers about pod "+pod, func(ctx context.Context) (err error) {
		if found, err = d.context(ctx, pod); err == nil && found == nil {
			err = fmt.Errorf("there is no context of pod %s", pod)
		}
		return err
	})
	return found
}

// contextGone waits until the context of a pod has been removed.
func (d *driver) contextGone(pod string) {
	d.space.T.Helper()
	d.space.Eventually("remove the context of pod "+pod, func(ctx context.Context) error {
		found, err := d.context(ctx, pod)
		if err == nil && found != nil {
			err = fmt.Errorf("the context of pod %s is still there", pod)
		}
		return err
	})
}

// newClassicSpace makes a space for pods of the shared scheduler whose claims drivers
// allocate.
func newClassicSpace(t *testing.T, name string, nodes int) *harness.Space {
	t.Helper()
	onlyClassic(t)
	profile, log := sharedScheduler(t)
	s := cluster.NewBareSpace(t, name, profile, nodes)
	s.Log = log
	return s
}
