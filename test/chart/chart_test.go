package chart

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/loader"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	chartFolder     = "../../charts/quartermaster"
	manifestsFolder = "../../manifests"
	// releaseName and releaseNamespace are those of the documentation.
	releaseName      = "quartermaster"
	releaseNamespace = "kube-system"
)

// kubeVersion is what Helm takes the server to be where it asks none.
var kubeVersion = &common.KubeVersion{Version: "v1.37.2", Major: "1", Minor: "37"}

// values are what a user sets.
type values = map[string]any

// loadChart loads the chart anew: Helm changes what it renders.
func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	loaded, err := loader.LoadDir(filepath.FromSlash(chartFolder))
	require.NoError(t, err)
	return loaded.(*chart.Chart)
}

// template does what "helm template" does.
func template(t *testing.T, namespace string, set values) (*release.Release, error) {
	t.Helper()
	return templateChart(loadChart(t), namespace, set)
}

func templateChart(loaded *chart.Chart, namespace string, set values) (*release.Release, error) {
	return templateFor(kubeVersion, loaded, namespace, set)
}

func templateFor(kubeVersion *common.KubeVersion, loaded *chart.Chart, namespace string, set values) (*release.Release, error) {
	configuration := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	install := action.NewInstall(configuration)
	install.DryRunStrategy = action.DryRunClient
	install.Replace = true
	install.KubeVersion = kubeVersion
	install.ReleaseName, install.Namespace = releaseName, namespace
	rendered, err := install.Run(loaded, set)
	if err != nil {
		return nil, err
	}
	return rendered.(*release.Release), nil
}

// render returns the objects that "helm template" prints, without hooks.
func render(t *testing.T, namespace string, set values) objects {
	t.Helper()
	rendered, err := template(t, namespace, set)
	require.NoError(t, err)
	return decode(t, rendered.Manifest)
}

// objects are API objects by "kind namespace/name".
type objects map[string]*unstructured.Unstructured

func key(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}

// only returns the one object of a kind.
func (o objects) only(t *testing.T, kind string) *unstructured.Unstructured {
	t.Helper()
	var found []*unstructured.Unstructured
	for _, object := range o {
		if object.GetKind() == kind {
			found = append(found, object)
		}
	}
	require.Len(t, found, 1, "objects of kind %s", kind)
	return found[0]
}

// decode reads a stream of YAML documents.
func decode(t *testing.T, text string) objects {
	t.Helper()
	result := objects{}
	for _, document := range strings.Split("\n"+text, "\n---\n") {
		encoded, err := yaml.YAMLToJSON([]byte(document))
		require.NoError(t, err, document)
		if string(encoded) == "null" {
			continue
		}
		object := &unstructured.Unstructured{}
		require.NoError(t, object.UnmarshalJSON(encoded), document)
		require.NotContains(t, result, key(object), "an object is there twice")
		result[key(object)] = object
	}
	return result
}
