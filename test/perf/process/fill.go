package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/test/perf/cluster"
)

// fill makes the cluster that all schedulers find.
func fill(ctx context.Context, client kubernetes.Interface, o options) error {
	class := &resourceapi.DeviceClass{}
	if err := readObject(filepath.Join(o.templates, "deviceclass.yaml"), class); err != nil {
		return err
	}
	if _, err := client.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := createDrivers(ctx, client, o); err != nil {
		return err
	}
	slices, err := drivers(o)
	if err != nil {
		return err
	}
	claims, err := cluster.Occupying(slices, o.claims, 1, 0)
	if err != nil {
		return err
	}
	// The claims look as if our scheduler had allocated them; other schedulers ignore the field manager.
	if err := cluster.Occupy(ctx, client, claims, write.FieldManager); err != nil {
		return err
	}
	return prepareNamespace(ctx, client, o)
}

// createDrivers creates the nodes and the slices of their drivers.
func createDrivers(ctx context.Context, client kubernetes.Interface, o options) error {
	nodes, err := cluster.Execute[v1.Node](filepath.Join(o.templates, "node.yaml"), o.nodes)
	if err != nil {
		return err
	}
	if err := cluster.CreateNodes(ctx, client, nodes); err != nil {
		return err
	}
	slices, err := drivers(o)
	if err != nil {
		return err
	}
	return cluster.Publish(ctx, client, slices)
}

// drivers returns the slices that the drivers publish: one for each node.
func drivers(o options) ([]*resourceapi.ResourceSlice, error) {
	return cluster.ExecuteWith[resourceapi.ResourceSlice](filepath.Join(o.templates, "slice-devices.yaml"), o.nodes, map[string]any{"Devices": o.devices})
}

func readObject(file string, into any) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(content, into); err != nil {
		return fmt.Errorf("%s is no %T: %w", file, into, err)
	}
	return nil
}
