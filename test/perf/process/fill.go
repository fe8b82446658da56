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

	"github.com/quartermaster-dra/quartermaster/internal/claimwriter"
	"github.com/quartermaster-dra/quartermaster/test/perf/cluster"
)

// fill makes the cluster that all schedulers find.
func fill(ctx context.Context, client kubernetes.Interface, o options) error {
	nodes, err := cluster.Execute[v1.Node](filepath.Join(o.templates, "node.yaml"), o.nodes)
	if err != nil {
		return err
	}
	if err := cluster.CreateNodes(ctx, client, nodes); err != nil {
		return err
	}
	class := &resourceapi.DeviceClass{}
	if err := readObject(filepath.Join(o.templates, "deviceclass.yaml"), class); err != nil {
		return err
	}
	if _, err := client.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return err
	}
	slices, err := cluster.Slices([]string{filepath.Join(o.templates, "slice.yaml")}, o.nodes)
	if err != nil {
		return err
	}
	if err := cluster.Publish(ctx, client, slices); err != nil {
		return err
	}
	claims, err := cluster.Occupying(slices, o.claims, 1, 0)
	if err != nil {
		return err
	}
	// As if ours had allocated them: other schedulers do not ask who did.
	return cluster.Occupy(ctx, client, claims, claimwriter.FieldManager)
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
