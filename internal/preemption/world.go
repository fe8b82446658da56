package preemption

import (
	"errors"
	"maps"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// worldKey is the key in the cycle state under which a dry run of preemption keeps the removed pods.
const worldKey fwk.StateKey = "Quartermaster.WhatIf"

// A World is the cluster without some pods. Filter uses it to find out whether a pod would fit. Unlike the attempt's
// other state it is cloned: each dry run has its own.
type World struct {
	// gone holds the removed pods, by UID.
	gone map[types.UID]*v1.Pod
	// usage is the usage without the removed pods, nil if it has to be computed (again). The mutex guards it: in a
	// dry run for a group, nodes are filtered concurrently.
	usage ledger.View
	mutex sync.Mutex
	// others returns the reservations of the other members of the pod's group; it is nil if the pod is tried alone.
	others func() []ledger.Use
}

// Clone implements fwk.StateData.
func (w *World) Clone() fwk.StateData {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return &World{gone: maps.Clone(w.gone), usage: w.usage, others: w.others}
}

// WorldIn returns the world of a dry run, nil outside of dry runs.
func WorldIn(cs fwk.CycleState) (*World, error) {
	data, err := cs.Read(worldKey)
	if errors.Is(err, fwk.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	w, ok := data.(*World)
	if !ok {
		return nil, errors.New("the cycle state of preemption for devices was replaced by something else")
	}
	return w, nil
}

// RemovePod removes a pod, as fwk.PreFilterExtensions requires.
func RemovePod(cs fwk.CycleState, pod *v1.Pod) error {
	w, err := WorldIn(cs)
	if err != nil {
		return err
	}
	if w == nil {
		w = &World{gone: make(map[types.UID]*v1.Pod)}
		cs.Write(worldKey, w)
	}
	w.gone[pod.UID] = pod
	w.usage = nil
	return nil
}

// AddPod undoes RemovePod. A pod that was not removed before is nominated for the node: Nominations already keep
// its devices.
func AddPod(cs fwk.CycleState, pod *v1.Pod) error {
	w, err := WorldIn(cs)
	if err != nil {
		return err
	}
	if w != nil && w.gone[pod.UID] != nil {
		delete(w.gone, pod.UID)
		w.usage = nil
	}
	return nil
}

// Usage returns the usage in this world. It leaves out claims that are about to be deallocated.
func (w *World) Usage(standing *Standing) ledger.View {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.usage == nil {
		w.usage = standing.Without(w.gone)
	}
	if w.others != nil { // The reservations change between calls.
		return ledger.WhatIf(w.usage, nil, w.others())
	}
	return w.usage
}
