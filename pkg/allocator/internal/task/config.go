package task

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// Chosen returns the chosen request or alternative of a slot, by the slot's position in its claim.
type Chosen func(slot int) *Request

// Config collects the configuration for the drivers (DeviceAllocationConfiguration). First comes that of the
// classes, each class once in the order of the requests, then that of the claim for its chosen requests. An
// entry for all requests names none.
func (c *Claim) Config(chosen Chosen) []resourceapi.DeviceAllocationConfiguration {
	configs := c.classConfig(chosen)
	for _, config := range c.API.Spec.Devices.Config {
		if len(config.Requests) == 0 || c.concernsChosen(chosen, config.Requests) {
			configs = append(configs, resourceapi.DeviceAllocationConfiguration{
				Source:              resourceapi.AllocationConfigSourceClaim,
				Requests:            config.Requests,
				DeviceConfiguration: config.DeviceConfiguration,
			})
		}
	}
	for i := range configs {
		if c.concernsAll(chosen, configs[i].Requests) {
			configs[i].Requests = nil
		}
	}
	return configs
}

func (c *Claim) classConfig(chosen Chosen) []resourceapi.DeviceAllocationConfiguration {
	var configs []resourceapi.DeviceAllocationConfiguration
	type interval struct{ start, end int }
	ofClass := make(map[string]interval)
	for slot := range c.Slots {
		r := chosen(slot)
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

// concernsChosen reports whether any of the names refers to a request or a chosen alternative.
func (c *Claim) concernsChosen(chosen Chosen, names []string) bool {
	for slot := range c.Slots {
		if c.isNamed(chosen, slot, names) {
			return true
		}
	}
	return false
}

// concernsAll reports whether the names cover all requests.
func (c *Claim) concernsAll(chosen Chosen, names []string) bool {
	for slot := range c.Slots {
		if !c.isNamed(chosen, slot, names) {
			return false
		}
	}
	return len(names) > 0
}

func (c *Claim) isNamed(chosen Chosen, slot int, names []string) bool {
	return slices.Contains(names, c.Slots[slot].Name) || slices.Contains(names, chosen(slot).Reference())
}
