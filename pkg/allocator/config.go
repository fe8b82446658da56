package allocator

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// config collects the configuration for the drivers (DeviceAllocationConfiguration):
// first that of the classes, each class once in the order of the requests, then
// that of the claim as far as it concerns a chosen request. An entry that is for
// all requests names none.
func (s *search) config(c *claim) []resourceapi.DeviceAllocationConfiguration {
	configs := s.classConfig(c)
	for _, config := range c.api.Spec.Devices.Config {
		if len(config.Requests) == 0 || s.concernsChosen(c, config.Requests) {
			configs = append(configs, resourceapi.DeviceAllocationConfiguration{
				Source:              resourceapi.AllocationConfigSourceClaim,
				Requests:            config.Requests,
				DeviceConfiguration: config.DeviceConfiguration,
			})
		}
	}
	for i := range configs {
		if s.concernsAll(c, configs[i].Requests) {
			configs[i].Requests = nil
		}
	}
	return configs
}

func (s *search) classConfig(c *claim) []resourceapi.DeviceAllocationConfiguration {
	var configs []resourceapi.DeviceAllocationConfiguration
	type interval struct{ start, end int }
	ofClass := make(map[string]interval)
	for slot := range c.slots {
		r := s.selected(c, slot)
		if known, found := ofClass[r.class.Name]; found {
			for i := known.start; i < known.end; i++ {
				configs[i].Requests = append(configs[i].Requests, r.reference())
			}
			continue
		}
		start := len(configs)
		for _, config := range r.class.Spec.Config {
			configs = append(configs, resourceapi.DeviceAllocationConfiguration{
				Source:              resourceapi.AllocationConfigSourceClass,
				Requests:            []string{r.reference()},
				DeviceConfiguration: config.DeviceConfiguration,
			})
		}
		ofClass[r.class.Name] = interval{start, len(configs)}
	}
	return configs
}

// concernsChosen reports whether any of the names is that of a request or of an
// alternative that was chosen.
func (s *search) concernsChosen(c *claim, names []string) bool {
	for slot := range c.slots {
		if s.isNamed(c, slot, names) {
			return true
		}
	}
	return false
}

// concernsAll reports whether the names cover all requests.
func (s *search) concernsAll(c *claim, names []string) bool {
	for slot := range c.slots {
		if !s.isNamed(c, slot, names) {
			return false
		}
	}
	return len(names) > 0
}

func (s *search) isNamed(c *claim, slot int, names []string) bool {
	return slices.Contains(names, c.slots[slot].name) || slices.Contains(names, s.selected(c, slot).reference())
}
