package driver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	driverModule = "sigs.k8s.io/dra-example-driver"
	// accountNamespace and accountName are those of the driver's service account.
	accountNamespace = "kube-system"
	accountName      = "dra-example-driver-service-account"
)

// chartObjects renders some templates of the driver's chart for one driver. The templates use few of Helm's functions.
func chartObjects(t *testing.T, module, driverName, extendedResource string, files ...string) (objects []*unstructured.Unstructured) {
	t.Helper()
	included := map[string]string{
		"dra-example-driver.fullname":           "dra-example-driver",
		"dra-example-driver.namespace":          accountNamespace,
		"dra-example-driver.serviceAccountName": accountName,
		"dra-example-driver.driverName":         driverName,
		"dra-example-driver.resourceApiVersion": "resource.k8s.io/v1",
	}
	functions := template.FuncMap{
		"include": func(name string, _ any) (string, error) {
			if value, found := included[name]; found {
				return value, nil
			}
			return "", fmt.Errorf("the chart includes %q, which this test does not know", name)
		},
		"quote": func(value any) string { return fmt.Sprintf("%q", fmt.Sprint(value)) },
	}
	values := map[string]any{"Values": map[string]any{"deviceClass": map[string]any{"extendedResourceName": extendedResource}}}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(module, "deployments", "helm", "dra-example-driver", "templates", file))
		require.NoError(t, err)
		parsed, err := template.New(file).Funcs(functions).Parse(string(text))
		require.NoError(t, err)
		var rendered bytes.Buffer
		require.NoError(t, parsed.Execute(&rendered, values))
		objects = append(objects, decode(t, file, rendered.Bytes())...)
	}
	return objects
}

// decode reads the objects of a file of YAML.
func decode(t *testing.T, name string, data []byte) (objects []*unstructured.Unstructured) {
	t.Helper()
	for _, document := range bytes.Split(data, []byte("\n---")) {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(document, &object.Object), "%s", name)
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
	return objects
}
