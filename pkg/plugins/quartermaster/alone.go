package quartermaster

import (
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// otherPlugins returns the profile's other plugins that register events. It fails if one of them allocates devices as
// well. The profile is complete by the time kube-scheduler asks for events.
func (pl *Quartermaster) otherPlugins() (others []fwk.EnqueueExtensions, err error) {
	profile, ok := pl.handle.(interface {
		EnqueueExtensions() []fwk.EnqueueExtensions
	})
	if !ok {
		return nil, nil
	}
	for _, plugin := range profile.EnqueueExtensions() {
		switch plugin.Name() {
		case Name:
		case kube.DynamicResources:
			return nil, fmt.Errorf("profile %s: plugins %s and %s are both enabled, and each would allocate devices for every claim; "+
				"disable one of them: under plugins of this profile, write \"multiPoint: {disabled: [{name: %s}]}\", and name it nowhere else",
				pl.handle.ProfileName(), Name, kube.DynamicResources, kube.DynamicResources)
		default:
			others = append(others, plugin)
		}
	}
	return others, nil
}
