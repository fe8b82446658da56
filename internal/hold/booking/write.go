package booking

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
)

const (
	// writePause is the pause between two looks at what is to be written.
	writePause = time.Second
	// placesEvery is the time between two writes of a status in which only nodes and devices differ: these may move with each plan.
	placesEvery = 10 * time.Second
	// mostWrites limits the writes for one namespace until the newer statuses of all are looked at again.
	mostWrites = 5
	// steps limits the writes for a booking, done or failed, that follow without a pause while its generation and state stay: somebody
	// else writes other values. From then on, the pause between two doubles each time, from firstPause up to lastPause.
	steps, firstPause, lastPause = 6, time.Second, time.Minute
	// forget is the time without writes after which those for a booking are forgotten.
	forget = 10 * lastPause
)

// An Update is the status that a booking ought to have.
type Update struct {
	*Booking
	State
	Next Status
	// Turn orders the bookings of a plan: those of lower ones are written first.
	Turn int
}

// Report sets the statuses that the bookings ought to have, as of the last plan.
func (b *Bookings) Report(all []Update) {
	select {
	case <-b.updates: // They are of an older plan.
	default:
	}
	select {
	case b.updates <- all:
	default:
	}
}

// writes are the writes for a booking while its generation and state stay. tried is the last one; number and counted leave out those that
// only note from time to time that the booking is in use.
type writes struct {
	generation     int64
	state          State
	number         int
	counted, tried time.Time
}

// Write writes statuses that differ, while this process leads, until the context ends. What fails is worked out again by a later plan, from
// what the server shows by then. The rate is that of the client.
func (b *Bookings) Write(ctx context.Context, leader lease.Leadership, recorder events.EventRecorder) {
	if b.served.Client == nil {
		return
	}
	sent := make(map[types.UID]writes)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(writePause):
		}
		maps.DeleteFunc(sent, func(_ types.UID, w writes) bool { return time.Since(w.tried) >= forget })
		var all []Update
		select {
		case all = <-b.updates:
		default: // There is no new plan.
		}
		slices.SortStableFunc(all, func(a, b Update) int {
			// Those that are written again and again hold up no others.
			return cmp.Or(cmp.Compare(a.Turn, b.Turn), sent[a.UID].tried.Compare(sent[b.UID].tried))
		})
		of := make(map[string]int)
		for _, update := range all {
			w := sent[update.UID]
			if w.generation != update.Generation || w.state != update.State {
				w.generation, w.state, w.number = update.Generation, update.State, 0
			}
			if of[update.Namespace] == mostWrites || leader.Leads() != nil || !update.isDue(w, time.Now()) {
				continue
			}
			of[update.Namespace]++
			err := b.write(ctx, update)
			if err != nil {
				klog.FromContext(ctx).V(2).Info("Cannot write the status of a DeviceBooking; trying again", "booking", klog.KObj(update), "err", err)
				b.observeWrite(ctx, err)
			} else {
				update.tell(recorder)
			}
			// A note that comes too soon after the last write answers that of somebody else.
			soon := time.Since(w.tried) < update.notesEvery()-writePause
			if w.tried = time.Now(); err != nil || !update.isNote() || soon {
				w.number, w.counted = w.number+1, w.tried
			}
			sent[update.UID] = w
		}
	}
}

// isDue reports whether a status is to be written now.
func (u Update) isDue(w writes, now time.Time) bool {
	same := u.Next
	same.Nodes, same.Devices = u.Status.Nodes, u.Status.Devices
	since := now.Sub(w.counted)
	switch {
	case equality.Semantic.DeepEqual(u.Status, u.Next):
		return false
	case equality.Semantic.DeepEqual(u.Status, same):
		return since >= max(placesEvery, w.pause())
	}
	return since >= w.pause()
}

// pause returns the time from the last write to the next one.
func (w writes) pause() time.Duration {
	if w.number < steps {
		return 0
	}
	return min(lastPause, firstPause<<min(w.number-steps, 10))
}

// isNote reports whether a status differs only in when the booking was used.
func (u Update) isNote() bool {
	same := u.Next
	same.LastUsed = u.Status.LastUsed
	return equality.Semantic.DeepEqual(u.Status, same)
}

// write writes a status. It applies only to the version of the object that it is about.
func (b *Bookings) write(ctx context.Context, update Update) error {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&DeviceBooking{
		TypeMeta:   metav1.TypeMeta{APIVersion: Version.String(), Kind: Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: update.Namespace, Name: update.Name, UID: update.UID, ResourceVersion: update.ResourceVersion},
		Status:     update.Next,
	})
	if err != nil {
		return fmt.Errorf("encode the status: %w", err)
	}
	delete(object, "spec") // The server takes nothing but the status.
	_, err = b.served.Client.Resource(resource).Namespace(update.Namespace).UpdateStatus(ctx, &unstructured.Unstructured{Object: object},
		metav1.UpdateOptions{FieldManager: "quartermaster"})
	if apierrors.IsNotFound(err) {
		return nil // A deleted booking needs no status.
	}
	return err
}

// observeWrite says once that the right to write is missing.
func (b *Bookings) observeWrite(ctx context.Context, err error) {
	if apierrors.IsForbidden(err) {
		b.unwritable.Do(func() {
			klog.FromContext(ctx).Error(err, "The scheduler may not write the status of DeviceBookings; give it the ClusterRole quartermaster-device-bookings (kubectl apply -k manifests/device-bookings)")
		})
	}
}

// tell reports a change of a condition that somebody has to know of: that the booking has ended, or has no devices.
func (u Update) tell(recorder events.EventRecorder) {
	for _, name := range []string{conditionEnded, conditionPlanned} {
		before, after := meta.FindStatusCondition(u.Status.Conditions, name), meta.FindStatusCondition(u.Next.Conditions, name)
		bad := name == conditionEnded && after.Status == metav1.ConditionTrue || name == conditionPlanned && after.Status == metav1.ConditionFalse && after.Reason != "Ended"
		if !bad || before != nil && before.Reason == after.Reason && before.LastTransitionTime.Equal(&after.LastTransitionTime) {
			continue
		}
		kind := v1.EventTypeNormal
		if name == conditionPlanned {
			kind = v1.EventTypeWarning
		}
		recorder.Eventf(&v1.ObjectReference{
			APIVersion: Version.String(), Kind: Kind, Namespace: u.Namespace, Name: u.Name, UID: u.UID, ResourceVersion: u.ResourceVersion,
		}, nil, kind, after.Reason, "Scheduling", "%s", after.Message)
	}
}
