package config

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"sigs.k8s.io/yaml"
)

// The arguments in docs/configuration.md are all that there are, with their defaults.
func TestDocumentedArgsAreTheDefaults(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../docs/configuration.md")
	require.NoError(t, err)
	_, text, found := strings.Cut(string(document), "```yaml\npluginConfig:")
	require.True(t, found)
	text, _, _ = strings.Cut("pluginConfig:"+text, "```")
	var configuration struct {
		PluginConfig []struct {
			Name string
			Args json.RawMessage
		}
	}
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &configuration))
	require.Len(t, configuration.PluginConfig, 1)
	require.Equal(t, Name, configuration.PluginConfig[0].Name)

	raw := configuration.PluginConfig[0].Args
	gates := feature.Features{EnableDRASchedulerFilterTimeout: true, EnableDRADeviceBindingConditions: true, EnableDRAResourceClaimDeviceStatus: true}
	documented, err := Parse(&runtime.Unknown{Raw: raw}, gates)
	require.NoError(t, err)
	defaults, err := Parse(nil, gates)
	require.NoError(t, err)
	defaults.TypeMeta = documented.TypeMeta
	encoded, err := json.Marshal(defaults)
	require.NoError(t, err)
	again, err := json.Marshal(documented)
	require.NoError(t, err)
	require.JSONEq(t, string(encoded), string(again))

	// What is left out in the document would have its default, too.
	var all, named map[string]any
	require.NoError(t, json.Unmarshal(encoded, &all))
	require.NoError(t, json.Unmarshal(raw, &named))
	for field := range all {
		require.Contains(t, named, field)
	}
}
