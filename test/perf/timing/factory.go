package timing

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// InTreeName is the name under which the in-tree plugin runs here. A registry does
// not accept the name DynamicResources a second time.
const InTreeName = "TimedDynamicResources"

// extensionInterfaces are all interfaces that the scheduler looks for in a plugin.
var extensionInterfaces = []reflect.Type{
	reflect.TypeFor[fwk.PreEnqueuePlugin](),
	reflect.TypeFor[fwk.QueueSortPlugin](),
	reflect.TypeFor[fwk.EnqueueExtensions](),
	reflect.TypeFor[fwk.SignPlugin](),
	reflect.TypeFor[fwk.PreFilterPlugin](),
	reflect.TypeFor[fwk.FilterPlugin](),
	reflect.TypeFor[fwk.PostFilterPlugin](),
	reflect.TypeFor[fwk.PodGroupPostFilterPlugin](),
	reflect.TypeFor[fwk.PreScorePlugin](),
	reflect.TypeFor[fwk.ScorePlugin](),
	reflect.TypeFor[fwk.ReservePlugin](),
	reflect.TypeFor[fwk.PermitPlugin](),
	reflect.TypeFor[fwk.PreBindPlugin](),
	reflect.TypeFor[fwk.BindPlugin](),
	reflect.TypeFor[fwk.PostBindPlugin](),
	reflect.TypeFor[fwk.PlacementGeneratePlugin](),
	reflect.TypeFor[fwk.PlacementScorePlugin](),
	reflect.TypeFor[framework.PlacementFeasiblePlugin](),
}

// Factory makes the plugin of inner, wrapped so that its time goes to the recorder.
// name is the one under which the scheduler's configuration enables it.
func Factory(name string, recorder *Recorder, inner frameworkruntime.PluginFactory) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		plugin, err := inner(ctx, args, handle)
		if err != nil {
			return nil, err
		}
		recorder.setHandle(handle)
		return wrap(name, recorder, plugin)
	}
}

// InTree is the factory of the in-tree plugin with the arguments that
// kube-scheduler gives it by default.
func InTree(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	defaults, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("default scheduler configuration: %w", err)
	}
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	for _, configured := range defaults.Profiles[0].PluginConfig {
		if configured.Name == dynamicresources.Name {
			return dynamicresources.New(ctx, configured.Args, handle, features)
		}
	}
	return nil, fmt.Errorf("the default scheduler configuration has no arguments for plugin %s", dynamicresources.Name)
}

// wrap fails rather than have the scheduler see other interfaces in the wrapped
// plugin than in the plugin itself: it would be used differently.
func wrap(name string, recorder *Recorder, plugin fwk.Plugin) (fwk.Plugin, error) {
	inner, ok := plugin.(devicePlugin)
	if !ok {
		return nil, fmt.Errorf("plugin %s (%T) lacks interfaces that a device plugin has: %s; give it a wrapper of its own in test/perf/timing",
			name, plugin, strings.Join(missing(plugin, reflect.TypeFor[*timedPlugin]()), ", "))
	}
	timed := &timedPlugin{devicePlugin: inner, name: name, recorder: recorder}
	var wrapped fwk.Plugin = timed
	if podGroups, ok := plugin.(fwk.PodGroupPostFilterPlugin); ok {
		group := &timedPodGroupPlugin{timedPlugin: timed, PodGroupPostFilterPlugin: podGroups}
		wrapped = group
		if more, ok := plugin.(morePoints); ok {
			wrapped = &timedOwnPlugin{timedPodGroupPlugin: group, morePoints: more}
		}
	}
	if lost := missing(wrapped, reflect.TypeOf(plugin)); len(lost) > 0 {
		return nil, fmt.Errorf("plugin %s (%T) implements %s, its wrapper does not: forward it in test/perf/timing",
			name, plugin, strings.Join(lost, ", "))
	}
	return wrapped, nil
}

// missing are the extension interfaces that wanted implements and plugin does not.
func missing(plugin fwk.Plugin, wanted reflect.Type) []string {
	var names []string
	for _, extension := range extensionInterfaces {
		if wanted.Implements(extension) && !implements(plugin, extension) {
			names = append(names, extension.Name())
		}
	}
	return names
}

func implements(plugin fwk.Plugin, extension reflect.Type) bool {
	return reflect.TypeOf(plugin).Implements(extension)
}
