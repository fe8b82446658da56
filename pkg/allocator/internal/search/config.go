package search

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
)

// config collects the configuration for the drivers (DeviceAllocationConfiguration):
// first that of the classes, each class once in the order of the requests, then
// that of the claim as far as it concerns a chosen request. An entry that is for
// all requests names none.
func (s *Search) config(c *task.Claim) []resourceapi.DeviceAllocationConfiguration {
	configs := s.classConfig(c)
	for _, config := range c.API.Spec.Devices.Config {
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

func (s *Search) classConfig(c *task.Claim) []resourceapi.DeviceAllocationConfiguration {
	var configs []resourceapi.DeviceAllocationConfiguration
	type interval struct{ start, end int }
	ofClass := make(map[string]interval)
	for slot := range c.Slots {
		r := s.selected(c, slot)
		if known, found := ofClass[r.Class.Name]; found {
			for i := known.start; i < known.end; i++ {
				configs[i].Requests = append(configs[i].Requests, r.Reference())
			}
			continue
		}
		start := len(configs)
		for _, config := range r.Class.Spec.Config {
			configs = append(configs, resourceapi.DeviceAllocationConfiguration{
				Source:              resourceapi.AllocationConfigSourceClass,
				Requests:            []string{r.Reference()},
				DeviceConfiguration: config.DeviceConfiguration,
			})
		}
		ofClass[r.Class.Name] = interval{start, len(configs)}
	}
	return configs
}

// concernsChosen reports whether any of the names is that of a request or of an
// alternative that was chosen.
func (s *Search) concernsChosen(c *task.Claim, names []string) bool {
	for slot := range c.Slots {
		if s.isNamed(c, slot, names) {
			return true
		}
	}
	return false
}

// concernsAll reports whether the names cover all requests.
func (s *Search) concernsAll(c *task.Claim, names []string) bool {
	for slot := range c.Slots {
		if !s.isNamed(c, slot, names) {
			return false
		}
	}
	return len(names) > 0
}

func (s *Search) isNamed(c *task.Claim, slot int, names []string) bool {
	return slices.Contains(names, c.Slots[slot].Name) || slices.Contains(names, s.selected(c, slot).Reference())
}
