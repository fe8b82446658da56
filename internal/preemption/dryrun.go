package preemption

import (
	"maps"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// dryRunKey is the key of the DryRun in the cycle state.
const dryRunKey fwk.StateKey = "Quartermaster.DryRun"

// A DryRun asks whether a pod would fit if others were gone. Nothing that it finds is recorded. There are three kinds:
//   - kube-scheduler removes pods from one node, and runs Filter (RemovePod),
//   - it removes pods for a group, and runs all phases from PreFilter to Reserve for its pods (GroupDryRun), and
//   - a gang is planned as a whole (ForGang).
//
// A DryRun is in the cycle state. Unlike the attempt's other state it is cloned: each clone has its own removed pods.
// The methods that return a kind may be called on nil.
type DryRun struct {
	// gone holds the removed pods, by UID.
	gone map[types.UID]*v1.Pod
	// usage is the usage without the removed pods, nil if it has to be computed (again). The mutex guards it: in a
	// dry run for a group, nodes are filtered concurrently.
	usage ledger.View
	mutex sync.Mutex
	// group is the dry run for the pod's group, and pod the pod; group is nil if the pod is tried alone.
	group *GroupDryRun
	pod   types.UID
	// ofGang is set if a gang is planned, and released are uses that count as ended then.
	ofGang   bool
	released []ledger.Use
}

// Clone implements fwk.StateData.
func (d *DryRun) Clone() fwk.StateData {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return &DryRun{gone: maps.Clone(d.gone), usage: d.usage, group: d.group, pod: d.pod, ofGang: d.ofGang, released: d.released}
}

// DryRunIn returns the dry run in a cycle state, nil if there is none.
func DryRunIn(cs fwk.CycleState) (*DryRun, error) {
	return kube.Stored[*DryRun](cs, dryRunKey)
}

// ForGang puts a dry run for planning a gang into the cycle state. If released is not nil, these uses, and all claims
// that are about to be deallocated, count as ended.
func ForGang(cs fwk.CycleState, released []ledger.Use) *DryRun {
	d := &DryRun{ofGang: true, released: released, gone: make(map[types.UID]*v1.Pod)}
	cs.Write(dryRunKey, d)
	return d
}

// RemovePod removes a pod, as fwk.PreFilterExtensions requires.
func RemovePod(cs fwk.CycleState, pod *v1.Pod) error {
	d, err := DryRunIn(cs)
	if err != nil {
		return err
	}
	if d == nil {
		d = &DryRun{gone: make(map[types.UID]*v1.Pod)}
		cs.Write(dryRunKey, d)
	}
	d.gone[pod.UID] = pod
	d.usage = nil
	return nil
}

// AddPod undoes RemovePod. A pod that was not removed before is nominated for the node: Nominations already keep
// its devices.
func AddPod(cs fwk.CycleState, pod *v1.Pod) error {
	d, err := DryRunIn(cs)
	if err != nil {
		return err
	}
	if d != nil && d.gone[pod.UID] != nil {
		delete(d.gone, pod.UID)
		d.usage = nil
	}
	return nil
}

// Group returns the dry run for the pod's group, nil if the pod is tried alone.
func (d *DryRun) Group() *GroupDryRun {
	if d == nil {
		return nil
	}
	return d.group
}

// PlansGang reports whether a gang is planned.
func (d *DryRun) PlansGang() bool { return d != nil && d.ofGang }

// Releases reports whether a gang is planned as if some uses had ended.
func (d *DryRun) Releases() bool { return d.PlansGang() && d.released != nil }

// Usage returns the usage in this dry run. It leaves out claims that are about to be deallocated.
func (d *DryRun) Usage(reclaimable *Reclaimable) ledger.View {
	if d.ofGang {
		return ledger.WhatIf(reclaimable.WithoutEnding, reclaimable.released(d.released), nil)
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.usage == nil {
		d.usage = reclaimable.Without(d.gone)
	}
	if d.group != nil { // The reservations change between calls.
		return ledger.WhatIf(d.usage, nil, d.group.others(d.pod))
	}
	return d.usage
}
