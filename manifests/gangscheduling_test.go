package manifests_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/pkg/plugins/gangplacement"
)

// The example differs from the shipped configuration in nothing but the plugin for gangs, with and without the gates.
func TestGangSchedulingConfig(t *testing.T) { // Not in parallel, because gates are the process's.
	for name, gates := range map[string]bool{"without gates": false, "with gates": true} {
		t.Run(name, func(t *testing.T) {
			if gates {
				featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
					features.GenericWorkload: true, features.TopologyAwareWorkloadScheduling: true,
				})
			}
			example, shipped := loadConfig(t, manifests.GangScheduling), loadConfig(t, manifests.Secondary)
			require.NoError(t, validation.ValidateKubeSchedulerConfiguration(example))
			got, want := effectivePlugins(t, example.Profiles), effectivePlugins(t, shipped.Profiles)

			ours := []config.Plugin{{Name: gangplacement.Name}}
			require.Equal(t, ours, got.QueueSort.Enabled)
			require.Equal(t, ours, got.PlacementGenerate.Enabled)
			require.Equal(t, decisivePlacements(want.PlacementScore.Enabled), got.PlacementScore.Enabled)
			if gates {
				require.Equal(t, []config.Plugin{{Name: names.TopologyPlacementGenerator}}, want.PlacementGenerate.Enabled, "what it takes the place of")
				require.Greater(t, len(want.PlacementScore.Enabled), 1)
			}
			want.QueueSort, want.PlacementGenerate, want.PlacementScore = got.QueueSort, got.PlacementGenerate, got.PlacementScore
			require.Equal(t, want, got)

			example.Profiles, shipped.Profiles = nil, nil
			require.Equal(t, shipped, example)
		})
	}
}

// decisivePlacements adds the plugin for gangs with a weight with which one of a hundred points outweighs all others.
func decisivePlacements(plugins []config.Plugin) []config.Plugin {
	weight := int32(1)
	for _, name := range []string{names.PodGroupPodsCount, names.NodeResourcesFit} {
		i := slices.IndexFunc(plugins, func(plugin config.Plugin) bool { return plugin.Name == name })
		if i < 0 {
			weight += 100 // It comes with a gate.
			continue
		}
		weight += plugins[i].Weight * 100
	}
	return append(slices.Clone(plugins), config.Plugin{Name: gangplacement.Name, Weight: weight})
}
