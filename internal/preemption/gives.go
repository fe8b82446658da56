package preemption

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Gives describes the devices that a victim gives up: "driver/pool/a, driver/pool/b of claim ns/name". It returns
// "" for a pod without devices.
func (h *Holders) Gives(victim *v1.Pod) string {
	var parts []string
	for _, use := range h.UsesOf(victim) {
		if devices := devicesOf(use); len(devices) > 0 {
			parts = append(parts, fmt.Sprintf("%s of claim %s", few(devices), klog.KRef(use.Claim.Namespace, use.Claim.Name)))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, " and ")
}

// Gets describes the devices that a nominated pod gets: "driver/pool/a, driver/pool/b".
func (n *Nomination) Gets() string { return few(devicesOf(n.Plan...)) }

// devicesOf lists the devices of claims, sorted, each once.
func devicesOf(uses ...ledger.Use) (devices []string) {
	for _, use := range uses {
		for result := range ledger.Used(use.Allocation) {
			devices = append(devices, result.Driver+"/"+result.Pool+"/"+result.Device)
		}
	}
	slices.Sort(devices)
	return slices.Compact(devices)
}

// few joins the names of devices; of many it names only the first ones.
func few(devices []string) string {
	const most = 8
	if len(devices) > most {
		return fmt.Sprintf("%s and %d more devices", strings.Join(devices[:most], " and "), len(devices)-most)
	}
	return strings.Join(devices, " and ")
}
