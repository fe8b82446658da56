package quartermaster

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// unservedKey is where PreFilter notes extended resources for which there was no class.
const unservedKey fwk.StateKey = Name + ".Unserved"

// unserved are extended resources for which there was no class when the attempt began, so
// that this plugin has nothing to do with them.
type unserved []v1.ResourceName

// Clone implements fwk.StateData.
func (u unserved) Clone() fwk.StateData { return u }

// noteUnserved notes the resources without a class.
func noteUnserved(cs fwk.CycleState, resources []extendedResource) {
	if len(resources) == 0 {
		return
	}
	names := make(unserved, len(resources))
	for i, resource := range resources {
		names[i] = resource.name
	}
	cs.Write(unservedKey, names)
}

// stillUnserved fails if there is a class by now. NodeResourcesFit may then have left nodes
// to this plugin that it was not asked about, and the pod would run there without devices.
func (pl *Quartermaster) stillUnserved(cs fwk.CycleState) error {
	if !pl.features.EnableDRAExtendedResource {
		return nil
	}
	data, err := cs.Read(unservedKey)
	if err != nil {
		return nil // There are none.
	}
	names, _ := data.(unserved)
	for _, name := range names {
		if class := pl.handle.SharedDRAManager().DeviceClassResolver().GetDeviceClass(name); class != nil {
			return fmt.Errorf("device class %s stands for extended resource %s since the pod was looked at; trying again", class.Name, name)
		}
	}
	return nil
}
