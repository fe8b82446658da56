package controlplane

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
)

// overrideFeatureGates sets gates for the whole process and returns a function
// that puts the earlier values back.
func overrideFeatureGates(gates map[string]bool) (restore func() error, err error) {
	known := utilfeature.DefaultMutableFeatureGate.GetAll()
	earlier := map[string]bool{}
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		feature := featuregate.Feature(name)
		if _, found := known[feature]; !found {
			unknown = append(unknown, name)
			continue
		}
		earlier[name] = utilfeature.DefaultFeatureGate.Enabled(feature)
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("feature gates %s: Kubernetes has no such gates in this version; remove them from Options.FeatureGates", strings.Join(unknown, ", "))
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		return nil, fmt.Errorf("set feature gates %v: %w", gates, err)
	}
	return func() error {
		if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(earlier); err != nil {
			return fmt.Errorf("reset feature gates to %v: %w", earlier, err)
		}
		return nil
	}, nil
}
