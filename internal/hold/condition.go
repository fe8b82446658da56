package hold

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Conditions of pods are compared with the holds each conditionPause. That of one pod changes at most each writePause: holds and devices may
// come and go each second.
const (
	conditionPause = 10 * time.Second
	writePause     = time.Minute
)

// A Scheduler leads or does not, and has profiles.
type Scheduler interface {
	lease.Leadership
	// Schedules reports whether it schedules the pods with a spec.schedulerName.
	Schedules(schedulerName string) bool
}

// WriteConditions keeps condition dra.DevicesHeld of the waiting pods up to date until the context ends. Of a group, the first pod has it.
func (r *Registry) WriteConditions(ctx context.Context, client kubernetes.Interface, usage ledger.View, scheduler Scheduler) {
	noted := make(map[types.UID]time.Time)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(conditionPause):
		}
		if scheduler.Leads() != nil {
			continue
		}
		for _, due := range r.conditions(usage, scheduler, noted, time.Now()) {
			if err := due.write(ctx, client); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				delete(noted, due.pod.UID)
				klog.FromContext(ctx).V(2).Info("Cannot write the condition of a pod for which devices are held; trying again", "pod", klog.KObj(due.pod), "err", err)
			}
		}
	}
}

// A condition is to be written to a pod.
type condition struct {
	pod *v1.Pod
	v1.PodCondition
}

// conditions returns the conditions that differ from the holds, of a scheduler's oldest pods first, and notes that they are written.
func (r *Registry) conditions(usage ledger.View, of Scheduler, noted map[types.UID]time.Time, now time.Time) (all []condition) {
	texts := make(map[types.UID]string)
	for _, h := range r.Holds() {
		if h.Booking == nil {
			texts[h.firstHeld()] = h.Announcement(usage)
		}
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if !r.planned {
		return nil // The holds of the process before are not known yet.
	}
	for uid := range noted {
		if r.waiting[uid] == nil && r.left[uid] == nil {
			delete(noted, uid)
		}
	}
	for _, pods := range []map[types.UID]*v1.Pod{r.waiting, r.left} {
		for uid, pod := range pods {
			if !of.Schedules(pod.Spec.SchedulerName) {
				continue
			}
			text, held := texts[uid]
			if next, due := conditionOf(pod, text, held, now); due && now.Sub(noted[uid]) >= writePause {
				noted[uid] = now
				all = append(all, condition{pod, next})
			}
		}
	}
	slices.SortFunc(all, func(a, b condition) int { return podutil.Older(a.pod, b.pod) })
	return all
}

// conditionOf returns the condition of a pod, and whether that differs from the one that it has.
func conditionOf(pod *v1.Pod, text string, held bool, now time.Time) (next v1.PodCondition, due bool) {
	next = v1.PodCondition{Type: dra.DevicesHeld, Status: v1.ConditionFalse, Reason: "NotHeld", LastTransitionTime: metav1.Time{Time: now}}
	next.Message = "no devices are held for the pod now" // Without a message, the former one would stay.
	if held {
		next.Status, next.Reason, next.Message = v1.ConditionTrue, "Held", text
	}
	before := dra.HeldFor(pod)
	if held && before != nil {
		next.LastTransitionTime = before.LastTransitionTime
		return next, before.Message != text
	}
	return next, held || before != nil
}

// firstHeld returns the first pod that a hold keeps devices for.
func (h *Hold) firstHeld() types.UID {
	for _, pod := range h.Waiting.Pods {
		if _, has := h.Uses[pod.UID]; has {
			return pod.UID
		}
	}
	return ""
}

// write writes the condition. The API server merges conditions by their type.
func (c condition) write(ctx context.Context, client kubernetes.Interface) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": c.pod.UID},
		"status":   map[string]any{"conditions": []v1.PodCondition{c.PodCondition}},
	})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Pods(c.pod.Namespace).Patch(ctx, c.pod.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: write.FieldManager}, "status")
	return err
}
