package quartermaster

import (
	"context"
	"errors"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// whatIfKey is where a dry run of preemption keeps what it has taken away.
const whatIfKey fwk.StateKey = Name + ".WhatIf"

// whatIf is a world without some pods, in which Filter is asked whether the pod would fit. Unlike the cycle, it is
// cloned: each dry run has its own, and only one goroutine uses it.
type whatIf struct {
	// gone are the pods that are not there.
	gone map[types.UID]*v1.Pod
	// usage is what is in use without them, nil if that has to be found out (again).
	usage ledger.View
	// group is the dry run of a whole group, of which the pod is a member; nil if the pod is tried alone.
	group  *groupDryRun
	member types.UID
}

// Clone implements fwk.StateData.
func (w *whatIf) Clone() fwk.StateData {
	return &whatIf{gone: maps.Clone(w.gone), usage: w.usage, group: w.group, member: w.member}
}

// whatIfOf returns what a dry run has taken away, nil outside of dry runs.
func whatIfOf(cs fwk.CycleState) (*whatIf, error) {
	data, err := cs.Read(whatIfKey)
	if errors.Is(err, fwk.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	w, ok := data.(*whatIf)
	if !ok {
		return nil, errors.New("the cycle state of preemption for plugin " + Name + " was replaced by something else")
	}
	return w, nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (pl *Quartermaster) PreFilterExtensions() fwk.PreFilterExtensions { return pl }

// RemovePod implements fwk.PreFilterExtensions: what if a pod were gone?
func (pl *Quartermaster) RemovePod(_ context.Context, cs fwk.CycleState, _ *v1.Pod, removed fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	w, err := whatIfOf(cs)
	if err != nil {
		return failed(err)
	}
	if w == nil {
		w = &whatIf{gone: make(map[types.UID]*v1.Pod)}
		cs.Write(whatIfKey, w)
	}
	w.gone[removed.GetPod().UID] = removed.GetPod()
	w.usage = nil
	return nil
}

// AddPod implements fwk.PreFilterExtensions: what if a pod were there? It is one that was taken away before, or one
// that is nominated for the node: what devices that one needs is in the ledger.
func (pl *Quartermaster) AddPod(_ context.Context, cs fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	w, err := whatIfOf(cs)
	if err != nil {
		return failed(err)
	}
	if w != nil && w.gone[added.GetPod().UID] != nil {
		delete(w.gone, added.GetPod().UID)
		w.usage = nil
	}
	return nil
}

// usageIn returns what is in use in the world of a dry run. What is about to be deallocated is not.
func (pl *Quartermaster) usageIn(c *cycle, w *whatIf) ledger.View {
	if w.group != nil { // What others of the group have reserved changes from one look to the next.
		return ledger.WhatIf(pl.standing(c).Without(w.gone), nil, w.group.planned(w.member))
	}
	if w.usage == nil {
		w.usage = pl.standing(c).Without(w.gone)
	}
	return w.usage
}
