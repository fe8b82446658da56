package controlplane

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
	apiserveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	basecompatibility "k8s.io/component-base/compatibility"
)

// emulate has all components of this process take an older minor release for theirs, and returns a
// function that puts an end to that.
func emulate(o Options) (restore func() error, err error) {
	if o.Release != "" || o.Restartable {
		return nil, errors.New("Options.EmulatedVersion is for servers in this process; Release and Restartable have to be unset")
	}
	wanted, err := version.ParseMajorMinor(o.EmulatedVersion)
	if err != nil {
		return nil, fmt.Errorf("Options.EmulatedVersion: %w; it has to be like \"1.36\"", err)
	}
	const component = basecompatibility.DefaultKubeComponent
	_ = apiserveroptions.NewServerRunOptions() // It registers the component, unless that is done.
	registered, ok := compatibility.DefaultComponentGlobalsRegistry.EffectiveVersionFor(component).(basecompatibility.MutableEffectiveVersion)
	if !ok {
		return nil, fmt.Errorf("emulate version %s: the version of component %s cannot be set in this process", wanted, component)
	}
	set := func(v *version.Version) error {
		registered.SetEmulationVersion(v)
		if err := errors.Join(registered.Validate()...); err != nil {
			return fmt.Errorf("emulate version %s: %w", v, err)
		}
		return utilfeature.DefaultMutableFeatureGate.SetEmulationVersionAndMinCompatibilityVersion(v, registered.MinCompatibilityVersion())
	}
	own := registered.EmulationVersion()
	if err := set(wanted); err != nil {
		return nil, errors.Join(err, set(own))
	}
	return func() error { return set(own) }, nil
}
