package whatif

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
)

// FromListers returns the objects that informers have in their caches. The informers of nodes, pods
// and all resources of resource.k8s.io/v1 except DeviceTaintRules must be synced; DeviceTaintRules
// are only read if withRules. Nothing is copied.
func FromListers(factory informers.SharedInformerFactory, withRules bool) (Objects, error) {
	var o Objects
	core, api, all := factory.Core().V1(), factory.Resource().V1(), labels.Everything()
	var failed error
	note := func(resource string, err error) {
		if err != nil && failed == nil {
			failed = fmt.Errorf("list %s from the informer's cache: %w", resource, err)
		}
	}
	var err error
	o.Nodes, err = core.Nodes().Lister().List(all)
	note("nodes", err)
	o.Pods, err = core.Pods().Lister().List(all)
	note("pods", err)
	o.Slices, err = api.ResourceSlices().Lister().List(all)
	note("ResourceSlices", err)
	o.Claims, err = api.ResourceClaims().Lister().List(all)
	note("ResourceClaims", err)
	o.Templates, err = api.ResourceClaimTemplates().Lister().List(all)
	note("ResourceClaimTemplates", err)
	o.Classes, err = api.DeviceClasses().Lister().List(all)
	note("DeviceClasses", err)
	if withRules {
		o.TaintRules, err = api.DeviceTaintRules().Lister().List(all)
		note("DeviceTaintRules", err)
	}
	return o, failed
}
