package whatif

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

// room holds the resources that a node has for pods, or that pods take of it, apart from devices.
type room struct {
	milliCPU, memory, pods int64
	// others holds hugepages, ephemeral storage and extended resources.
	others map[v1.ResourceName]int64
}

func roomOf(list v1.ResourceList) room {
	r := room{milliCPU: quantity.MilliValue(*list.Cpu()), memory: quantity.Value(*list.Memory()), pods: quantity.Value(*list.Pods())}
	for name, amount := range list {
		switch name {
		case v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods:
		default:
			if r.others == nil {
				r.others = make(map[v1.ResourceName]int64)
			}
			r.others[name] = quantity.Value(amount)
		}
	}
	return r
}

// takenBy returns the resources that a pod takes, also by its devices if its status says so, without extended resources that devices
// back.
func takenBy(pod *v1.Pod, backed map[v1.ResourceName]bool) room {
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{UseStatusResources: true, UseDRANodeAllocatableResourceClaimStatus: true})
	r := roomOf(requests)
	for name := range backed {
		delete(r.others, name)
	}
	r.pods = 1
	return r
}

// minus returns the difference.
func (r room) minus(taken room) room {
	r.milliCPU, r.memory, r.pods = r.milliCPU-taken.milliCPU, r.memory-taken.memory, r.pods-taken.pods
	if len(taken.others) > 0 {
		others := maps.Clone(r.others)
		if others == nil {
			others = make(map[v1.ResourceName]int64, len(taken.others))
		}
		for name, amount := range taken.others {
			others[name] -= amount
		}
		r.others = others
	}
	return r
}

// negated returns a room whose subtraction adds r.
func (r room) negated() room { return room{}.minus(r) }

// lacking returns the first resource that is short for a pod, "" if it fits in. Resources that a
// pod does not ask for may be overcommitted, as in kube-scheduler's NodeResourcesFit.
func (r room) lacking(asked room) v1.ResourceName {
	if short := r.lackingOf(asked); short != nil {
		return short.resource
	}
	return ""
}

// lackingOf returns the first resource that is short for a pod, with its amounts, nil if it fits
// in.
func (r room) lackingOf(asked room) *shortfall {
	first := v1.ResourceName("")
	switch {
	case asked.pods > r.pods:
		first = v1.ResourcePods
	case asked.milliCPU > 0 && asked.milliCPU > r.milliCPU:
		first = v1.ResourceCPU
	case asked.memory > 0 && asked.memory > r.memory:
		first = v1.ResourceMemory
	default:
		for name, amount := range asked.others {
			if amount > 0 && amount > r.others[name] && (first == "" || name < first) {
				first = name
			}
		}
	}
	if first == "" {
		return nil
	}
	return &shortfall{resource: first, asked: asked.of(first), free: r.of(first)}
}

// of returns the amount of a resource, in thousandths for CPU.
func (r room) of(name v1.ResourceName) int64 {
	switch name {
	case v1.ResourcePods:
		return r.pods
	case v1.ResourceCPU:
		return r.milliCPU
	case v1.ResourceMemory:
		return r.memory
	}
	return r.others[name]
}
