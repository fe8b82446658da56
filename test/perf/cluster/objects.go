// Package cluster brings a cluster into the state in which a measurement starts:
// drivers have published their devices, and some of these are taken.
package cluster

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"text/template"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// writers is the number of requests at a time. The cluster is the same whatever the
// order in which they arrive.
const writers = 16

// functions are those of scheduler_perf that templates here need.
var functions = template.FuncMap{"DivideInt": func(a, b int) int { return a / b }}

// Execute executes the template of an object for 0 to count-1 as .Index, as
// scheduler_perf executes templates, but for most of its functions.
func Execute[T any](file string, count int) ([]*T, error) { return ExecuteWith[T](file, count, nil) }

// ExecuteWith is Execute for a template that needs other values as well.
func ExecuteWith[T any](file string, count int, values map[string]any) ([]*T, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("template of a %T: %w", *new(T), err)
	}
	parsed, err := template.New(file).Funcs(functions).Parse(string(content))
	if err != nil {
		return nil, fmt.Errorf("template of a %T: %w", *new(T), err)
	}
	objects := make([]*T, count)
	for index := range objects {
		var text bytes.Buffer
		data := map[string]any{"Index": index, "Count": count}
		maps.Copy(data, values)
		if err := parsed.Execute(&text, data); err != nil {
			return nil, fmt.Errorf("template %s for number %d: %w", file, index, err)
		}
		objects[index] = new(T)
		if err := yaml.UnmarshalStrict(text.Bytes(), objects[index]); err != nil {
			return nil, fmt.Errorf("template %s for number %d does not make a %T: %w", file, index, *new(T), err)
		}
	}
	return objects, nil
}

// Slices executes templates of ResourceSlices for each of count nodes. The result
// is in the order of the nodes, and of the templates for each node.
func Slices(files []string, count int) ([]*resourceapi.ResourceSlice, error) {
	byTemplate := make([][]*resourceapi.ResourceSlice, len(files))
	for i, file := range files {
		var err error
		if byTemplate[i], err = Execute[resourceapi.ResourceSlice](file, count); err != nil {
			return nil, err
		}
	}
	var slices []*resourceapi.ResourceSlice
	for index := range count {
		for _, made := range byTemplate {
			slices = append(slices, made[index])
		}
	}
	return slices, nil
}

// CreateNodes creates the nodes.
func CreateNodes(ctx context.Context, client kubernetes.Interface, nodes []*v1.Node) error {
	return InParallel(ctx, len(nodes), func(i int) error {
		_, err := client.CoreV1().Nodes().Create(ctx, nodes[i], metav1.CreateOptions{})
		return err
	})
}

// Publish creates the slices.
func Publish(ctx context.Context, client kubernetes.Interface, slices []*resourceapi.ResourceSlice) error {
	return InParallel(ctx, len(slices), func(i int) error {
		_, err := client.ResourceV1().ResourceSlices().Create(ctx, slices[i], metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		return err
	})
}

// Republish updates the slices, which are those that the server has but for what changes.
func Republish(ctx context.Context, client kubernetes.Interface, slices []*resourceapi.ResourceSlice) error {
	return InParallel(ctx, len(slices), func(i int) error {
		_, err := client.ResourceV1().ResourceSlices().Update(ctx, slices[i], metav1.UpdateOptions{})
		return err
	})
}

// CreatePods creates count pods like the given one, which has a generateName.
func CreatePods(ctx context.Context, client kubernetes.Interface, namespace string, pod *v1.Pod, count int) error {
	return InParallel(ctx, count, func(int) error {
		_, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}
