package manifests_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/quartermaster-dra/quartermaster/pkg/plugins/gangplacement"
)

// pluginName is how the configuration calls the plugin; the test does not need
// what it does, only where the configuration puts it.
const pluginName = "Quartermaster"

// placeholder stands where the plugin stands, at the extension points whose
// order or weight matters.
type placeholder struct{}

var (
	_ fwk.PostFilterPlugin         = placeholder{}
	_ fwk.ScorePlugin              = placeholder{}
	_ fwk.PodGroupPostFilterPlugin = placeholder{}
)

func (placeholder) Name() string { return pluginName }

func (placeholder) PostFilter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

func (placeholder) PodGroupPostFilter(context.Context, fwk.PodGroupCycleState, fwk.PodGroupInfo, fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

func (placeholder) Score(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return 0, nil
}

func (placeholder) ScoreExtensions() fwk.ScoreExtensions { return nil }

// effectivePlugins builds the scheduler and returns the plugins that run in its
// only profile.
func effectivePlugins(t *testing.T, profiles []config.KubeSchedulerProfile) *config.Plugins {
	t.Helper()
	client := fake.NewClientset()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	t.Cleanup(broadcaster.Shutdown)
	placeholderFactory := func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return placeholder{}, nil
	}
	built, err := scheduler.New(t.Context(), client, scheduler.NewInformerFactory(client, 0, nil), nil,
		profile.NewRecorderFactory(broadcaster),
		scheduler.WithProfiles(profiles...),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{pluginName: placeholderFactory, gangplacement.Name: gangplacement.New}))
	require.NoError(t, err)
	require.Len(t, built.Profiles, 1)
	for _, framework := range built.Profiles {
		return framework.ListPlugins()
	}
	return nil
}

// The profile must differ from the default one in nothing but the exchange of
// DynamicResources for Quartermaster, and the weight of its score.
func TestPluginsInEffect(t *testing.T) {
	t.Parallel()
	upstream, err := latest.Default()
	require.NoError(t, err)
	defaults := effectivePlugins(t, upstream.Profiles)
	forEachOverlay(t, func(t *testing.T, overlay string, _ []*unstructured.Unstructured) {
		got := effectivePlugins(t, loadConfig(t, overlay).Profiles)

		want := exchanged(defaults.PostFilter.Enabled)
		require.Equal(t, pluginName, want[0].Name, "upstream frees claims before it preempts pods")
		require.Equal(t, want, got.PostFilter.Enabled, "post filter plugins, in order")
		require.Equal(t, exchanged(defaults.PodGroupPostFilter.Enabled), got.PodGroupPostFilter.Enabled, "the same for groups")
		require.ElementsMatch(t, decisive(exchanged(defaults.Score.Enabled)), got.Score.Enabled, "score plugins and weights")
		for _, point := range [][2][]config.Plugin{
			{defaults.PreEnqueue.Enabled, got.PreEnqueue.Enabled},
			{defaults.QueueSort.Enabled, got.QueueSort.Enabled},
			{defaults.PreFilter.Enabled, got.PreFilter.Enabled},
			{defaults.Filter.Enabled, got.Filter.Enabled},
			{defaults.PreScore.Enabled, got.PreScore.Enabled},
			{defaults.Reserve.Enabled, got.Reserve.Enabled},
			{defaults.Permit.Enabled, got.Permit.Enabled},
			{defaults.PreBind.Enabled, got.PreBind.Enabled},
			{defaults.Bind.Enabled, got.Bind.Enabled},
			{defaults.PostBind.Enabled, got.PostBind.Enabled},
		} {
			require.Equal(t, withoutDynamicResources(point[0]), point[1])
		}
	})
}

// exchanged puts Quartermaster where DynamicResources is, with its weight.
func exchanged(plugins []config.Plugin) []config.Plugin {
	result := slices.Clone(plugins)
	for i := range result {
		if result[i].Name == names.DynamicResources {
			result[i].Name = pluginName
		}
	}
	return result
}

// decisive gives Quartermaster a weight with which one of a hundred points outweighs all that plugins say
// about nodes which nobody has stated a preference for.
func decisive(plugins []config.Plugin) []config.Plugin {
	weight := int32(1)
	for _, plugin := range plugins {
		switch plugin.Name {
		case names.NodeResourcesFit, names.NodeResourcesBalancedAllocation, names.ImageLocality, names.VolumeBinding, names.PodTopologySpread:
			weight += plugin.Weight * 100
		}
	}
	for i := range plugins {
		if plugins[i].Name == pluginName {
			plugins[i].Weight = weight
		}
	}
	return plugins
}

// withoutDynamicResources is what remains at a point that the placeholder does
// not implement.
func withoutDynamicResources(plugins []config.Plugin) []config.Plugin {
	return slices.DeleteFunc(slices.Clone(plugins), func(plugin config.Plugin) bool {
		return plugin.Name == names.DynamicResources
	})
}
