// Package cluster brings a cluster into the state in which a measurement starts:
// drivers have published their devices, and some of these are taken.
package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"text/template"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// writers is the number of requests at a time. The cluster is the same whatever the
// order in which they arrive.
const writers = 16

// Slices executes templates of ResourceSlices for each of count nodes. The result
// is in the order of the nodes, and of the templates for each node.
func Slices(files []string, count int) ([]*resourceapi.ResourceSlice, error) {
	templates := make([]*template.Template, 0, len(files))
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("template of a ResourceSlice: %w", err)
		}
		parsed, err := template.New(file).Parse(string(content))
		if err != nil {
			return nil, fmt.Errorf("template of a ResourceSlice: %w", err)
		}
		templates = append(templates, parsed)
	}
	var slices []*resourceapi.ResourceSlice
	for index := range count {
		for _, slice := range templates {
			var text bytes.Buffer
			if err := slice.Execute(&text, map[string]any{"Index": index, "Count": count}); err != nil {
				return nil, fmt.Errorf("template %s for node %d: %w", slice.Name(), index, err)
			}
			made := &resourceapi.ResourceSlice{}
			if err := yaml.UnmarshalStrict(text.Bytes(), made); err != nil {
				return nil, fmt.Errorf("template %s for node %d does not make a ResourceSlice: %w", slice.Name(), index, err)
			}
			slices = append(slices, made)
		}
	}
	return slices, nil
}

// Publish creates the slices.
func Publish(ctx context.Context, client kubernetes.Interface, slices []*resourceapi.ResourceSlice) error {
	return inParallel(ctx, len(slices), func(i int) error {
		_, err := client.ResourceV1().ResourceSlices().Create(ctx, slices[i], metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		return err
	})
}
