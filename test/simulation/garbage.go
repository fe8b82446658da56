package simulation

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// garbagePeriod is the interval of garbage collection.
const garbagePeriod = 5 * time.Second

// garbageCollector deletes claims whose owners are gone.
func (w *World) garbageCollector() {
	var seen [3]int64
	for pause(w.ctx, garbagePeriod) == nil {
		now := [3]int64(w.server.versions("/v1/pods", "scheduling.k8s.io/v1beta1/podgroups", "resource.k8s.io/v1/resourceclaims"))
		if now == seen {
			continue
		}
		seen = now
		for _, o := range w.orphans() {
			uid := o.uid()
			_ = w.client.ResourceV1().ResourceClaims(o.text("namespace")).Delete(w.ctx, o.text("name"), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		}
	}
}

// orphans returns the claims whose owners are all gone, and that are not being deleted.
func (w *World) orphans() []*object {
	s := w.server.store
	s.mutex.Lock()
	defer s.mutex.Unlock()
	there := map[any]bool{}
	for _, name := range []string{"/v1/pods", "scheduling.k8s.io/v1beta1/podgroups"} {
		if c := s.collections[name]; c != nil {
			for _, o := range c.objects {
				there[o.text("uid")] = true
			}
		}
	}
	var all []*object
	for _, claim := range s.collections["resource.k8s.io/v1/resourceclaims"].sorted() {
		owners, _ := claim.metadata()["ownerReferences"].([]any)
		orphaned := len(owners) > 0 && claim.metadata()["deletionTimestamp"] == nil
		for _, owner := range owners {
			orphaned = orphaned && !there[owner.(map[string]any)["uid"]]
		}
		if orphaned {
			all = append(all, claim)
		}
	}
	return all
}
