package kube

import (
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// Names of kube-scheduler's plugins.
const (
	DefaultPreemption = names.DefaultPreemption
	DynamicResources  = names.DynamicResources
	InterPodAffinity  = names.InterPodAffinity
	PodTopologySpread = names.PodTopologySpread
)

// PostFilterPlugins returns the names of the plugins that a profile enables at PostFilter, in their order, and none if
// the handle does not tell. fwk.Handle has no method for it: kube-scheduler's framework has more than its interface.
func PostFilterPlugins(handle fwk.Handle) (enabled []string) {
	profile, ok := handle.(interface{ ListPlugins() *config.Plugins })
	if !ok {
		return nil
	}
	for _, plugin := range profile.ListPlugins().PostFilter.Enabled {
		enabled = append(enabled, plugin.Name)
	}
	return enabled
}
