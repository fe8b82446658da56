package quartermaster

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// ArgsAPIVersion and ArgsKind identify the plugin's arguments in the pluginConfig
// of a KubeSchedulerConfiguration.
const (
	ArgsAPIVersion = "kubescheduler.config.k8s.io/v1"
	ArgsKind       = "QuartermasterArgs"
)

// QuartermasterArgs are the arguments of the plugin. There is nothing to set yet;
// the plugin also runs without any.
type QuartermasterArgs struct {
	metav1.TypeMeta `json:",inline"`
}

// parseArgs reads the arguments. Fields that do not exist are errors, so that a
// typing error does not silently leave a default in place.
func parseArgs(configured runtime.Object) (*QuartermasterArgs, error) {
	args := &QuartermasterArgs{}
	switch configured := configured.(type) {
	case nil:
	case *QuartermasterArgs:
		args = configured
	case *runtime.Unknown:
		// Both JSON and YAML are YAML.
		if err := yaml.UnmarshalStrict(configured.Raw, args); err != nil {
			return nil, fmt.Errorf("arguments of plugin %s are not understood: %w", Name, err)
		}
	default:
		return nil, fmt.Errorf("arguments of plugin %s are of type %T, expected are kind %s of %s",
			Name, configured, ArgsKind, ArgsAPIVersion)
	}
	if args.Kind != "" && args.Kind != ArgsKind || args.APIVersion != "" && args.APIVersion != ArgsAPIVersion {
		return nil, fmt.Errorf("arguments of plugin %s are kind %q of %q, expected are kind %s of %s",
			Name, args.Kind, args.APIVersion, ArgsKind, ArgsAPIVersion)
	}
	return args, nil
}

// DeepCopyObject implements runtime.Object.
func (a *QuartermasterArgs) DeepCopyObject() runtime.Object {
	c := *a
	return &c
}
