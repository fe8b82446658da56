package kueue

import (
	"context"
	"encoding/base64"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	// namespace is where Kueue keeps its certificate.
	namespace = "kueue-system"
	// secretName is where Kueue looks for its certificate.
	secretName = "kueue-webhook-server-cert"
)

// component is a controller with kinds and webhooks of its own.
type component struct {
	// name is the name of its executable in bin, and the prefix of its webhooks.
	name string
	// module is its module, which tools/kueue pins.
	module string
	// groups are the API groups whose objects its webhooks see.
	groups []any
	// pods are more fields of its webhooks for pods.
	pods map[string]any
	// converted are the kinds that it converts to other versions.
	converted []string
}

// install creates the kinds of a component and, until the end of the test, its webhooks.
func (c component) install(t *testing.T, webhook *net.TCPAddr, shown certificate) {
	t.Helper()
	folder, url := harness.ModuleFolder(t, c.module, "kueue"), "https://"+webhook.String()
	c.installDefinitions(t, folder, url, shown)
	c.installWebhooks(t, folder, url, shown)
}

// installSecret has Kueue find its certificate, as in its own installation. Kueue writes the authority into its webhooks.
func installSecret(t *testing.T, c certificate) {
	t.Helper()
	_, err := cluster.Client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	secrets := cluster.Client.CoreV1().Secrets(namespace)
	if err := secrets.Delete(t.Context(), secretName, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		require.NoError(t, err)
	}
	_, err = secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName},
		Data:       map[string][]byte{"ca.crt": c.certificate, "ca.key": c.key, "tls.crt": c.certificate, "tls.key": c.key},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// installDefinitions creates the definitions of the kinds of a component, and waits until the API server has them.
func (c component) installDefinitions(t *testing.T, folder, url string, shown certificate) {
	t.Helper()
	cluster.ApplyDefinitions(t, filepath.Join(folder, "config", "components", "crd", "bases"), func(definition *unstructured.Unstructured) {
		kind, _, err := unstructured.NestedString(definition.Object, "spec", "names", "kind")
		require.NoError(t, err)
		if slices.Contains(c.converted, kind) {
			require.NoError(t, unstructured.SetNestedMap(definition.Object, map[string]any{
				"strategy": "Webhook",
				"webhook":  map[string]any{"clientConfig": shown.clientConfig(url + "/convert"), "conversionReviewVersions": []any{"v1"}},
			}, "spec", "conversion"))
		}
	})
}

// installWebhooks registers the webhooks of a component until the end of the test.
func (c component) installWebhooks(t *testing.T, folder, url string, shown certificate) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "config", "components", "webhook", "manifests.yaml"))
	require.NoError(t, err)
	for _, configuration := range harness.Decode(t, text) {
		configuration.SetName(c.name + "-" + configuration.GetName())
		all, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
		require.NoError(t, err)
		var used []any
		for _, webhook := range all {
			webhook := webhook.(map[string]any)
			rule := webhook["rules"].([]any)[0].(map[string]any)
			group := rule["apiGroups"].([]any)[0]
			if !slices.Contains(c.groups, group) {
				continue
			}
			if group == "" {
				maps.Copy(webhook, c.pods)
			}
			path, _, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
			require.NoError(t, err)
			webhook["clientConfig"] = shown.clientConfig(url + path)
			used = append(used, webhook)
		}
		require.NotEmpty(t, used)
		require.NoError(t, unstructured.SetNestedSlice(configuration.Object, used, "webhooks"))
		cluster.Apply(t, configuration)
		t.Cleanup(func() {
			err := cluster.Resources(t, configuration.GroupVersionKind(), "").Delete(context.Background(), configuration.GetName(), metav1.DeleteOptions{})
			require.NoError(t, err)
		})
	}
}

// otherNamespaces selects the namespaces whose pods Kueue may manage.
func otherNamespaces() map[string]any {
	return map[string]any{"matchExpressions": []any{map[string]any{
		"key": corev1.LabelMetadataName, "operator": "NotIn", "values": []any{metav1.NamespaceSystem, namespace},
	}}}
}

// clientConfig tells the API server how to reach a webhook.
func (c certificate) clientConfig(url string) map[string]any {
	return map[string]any{"url": url, "caBundle": base64.StdEncoding.EncodeToString(c.certificate)}
}
