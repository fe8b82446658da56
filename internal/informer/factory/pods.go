package factory

import (
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// replacedHandler tells a handler of a deletion and a creation where the informer shows an update from one object to another one of its
// name: both happened while the watch was interrupted.
//
// Kube-scheduler takes such an update of a pod for a change of one pod (scheduler.updatePod in Kubernetes 1.37). If the first pod was on a
// node, its process ends, because a pod cannot leave its node. If the first one was about to be bound, its room is never free again.
type replacedHandler struct{ cache.ResourceEventHandler }

// OnUpdate implements cache.ResourceEventHandler.
func (h replacedHandler) OnUpdate(before, after any) {
	if !informer.Replaced(before, after) {
		h.ResourceEventHandler.OnUpdate(before, after)
		return
	}
	h.OnDelete(informer.Missed(before))
	h.OnAdd(after, false)
}
