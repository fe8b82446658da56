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

// worldKey is where a dry run of preemption keeps what it has taken away.
const worldKey fwk.StateKey = "Quartermaster.WhatIf"

// World is the cluster without some pods, in which Filter is asked whether a pod would fit. Unlike what else is known
// about an attempt it is cloned: each dry run has its own.
type World struct {
	// gone are the pods that are not there.
	gone map[types.UID]*v1.Pod
	// usage is what is in use without them, nil if that has to be found out (again). The mutex is for that: when a
	// group is tried, nodes are looked at at the same time.
	usage ledger.View
	mutex sync.Mutex
	// others returns what is reserved for other members of the pod's group; nil if the pod is tried alone.
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

// RemovePod takes a pod away, as fwk.PreFilterExtensions has it.
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

// AddPod is the opposite of RemovePod. A pod that was not taken away is one that is nominated for the node: what is
// kept for it is in use in the eyes of others, see Nominations.
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

// Usage returns what is in use. What is about to be deallocated is not.
func (w *World) Usage(standing *Standing) ledger.View {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.usage == nil {
		w.usage = standing.Without(w.gone)
	}
	if w.others != nil { // They change from one look to the next.
		return ledger.WhatIf(w.usage, nil, w.others())
	}
	return w.usage
}
