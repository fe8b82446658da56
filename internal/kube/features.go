package kube

import (
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// Feature gates that Quartermaster reads by name. 1.38 is likely to have GenericWorkload on by default.
const (
	CompositePodGroup           featuregate.Feature = features.CompositePodGroup
	DRADeviceTaintRules         featuregate.Feature = features.DRADeviceTaintRules
	DRANodeAllocatableResources featuregate.Feature = features.DRANodeAllocatableResources
	GenericWorkload             featuregate.Feature = features.GenericWorkload
)

// Features holds the feature gates as kube-scheduler gives them to its plugins. A field goes when its gate is locked:
// the code that asks for it goes with it.
type Features = feature.Features

// FeaturesFrom reads Features from feature gates.
func FeaturesFrom(gates featuregate.FeatureGate) Features {
	return feature.NewSchedulerFeaturesFromGates(gates)
}
