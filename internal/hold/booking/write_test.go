package booking

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
)

// leads says whether a process leads.
type leads bool

func (l *leads) Leads() error {
	if *l {
		return nil
	}
	return lease.ErrNotLeading
}

// TestWritesInTurn: many bookings of one namespace hold up nobody else's.
func TestWritesInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var objects []DeviceBooking
		for i := range 3 * mostWrites {
			objects = append(objects, object(func(o *DeviceBooking) { o.Name, o.UID = fmt.Sprint(i), types.UID(fmt.Sprint(i)) }))
		}
		s := newServer(t, append(objects, object(func(o *DeviceBooking) { o.Namespace, o.UID = "other", "other" }))...)
		b := run(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go b.Write(ctx, new(leads(true)), events.NewFakeRecorder(100))
		for _, want := range []int{mostWrites + 1, 2*mostWrites + 1, 3*mostWrites + 1, 3*mostWrites + 1} {
			var all []Update
			for _, one := range b.All() {
				all = append(all, Update{Booking: one, Next: one.Next(State{Start: epoch, End: epoch.Add(time.Hour)}, false, Outcome{Planned: metav1.ConditionTrue, Reason: "Held"}, time.Now())})
			}
			b.Report(all)
			time.Sleep(writePause)
			synctest.Wait()
			require.Equal(t, want, s.writes)
		}
	})
}

// TestStatusSettles: once a status is stored as it was worked out, there is nothing to write any more. The server accepts it.
func TestStatusSettles(t *testing.T) {
	t.Parallel()
	for i, edit := range []func(*DeviceBooking){
		func(o *DeviceBooking) {}, // It gets a fraction below, which the Go type does not write.
		func(o *DeviceBooking) {},
		func(o *DeviceBooking) { o.Spec.Duration.Duration = 90*time.Minute + time.Second/2 },
		func(o *DeviceBooking) { o.Spec.GracePeriod.Duration = 1500 * time.Millisecond },
		func(o *DeviceBooking) {
			o.Spec.Start = &metav1.Time{Time: time.Date(lastYear, 12, 31, 23, 59, 59, 0, time.UTC)}
		},
		repeated("*/7 * * * *", 99*time.Second+time.Millisecond),
	} {
		for _, after := range []time.Duration{0, 70 * time.Minute, 9 * time.Hour} {
			source, now, written := untyped(t, object(edit)), epoch.Add(after), 0
			if i == 0 {
				source.Object["spec"].(map[string]any)["start"] = "2026-01-05T14:00:00.5+01:00"
			}
			for ; written < 3; written++ {
				obj, err := toBooking(source)
				require.NoError(t, err)
				b := obj.(*Booking)
				require.NoError(t, b.Invalid)
				s := b.At(now, true)
				update := Update{Booking: b, State: s, Next: b.Next(s, true, Outcome{Planned: metav1.ConditionTrue, Reason: "Held", Message: "x"}, now)}
				if b.Settled(s) || !update.isDue(writes{}, now) {
					break
				}
				status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&update.Next)
				require.NoError(t, err)
				for _, field := range []string{"start", "end"} {
					_, err := time.Parse(time.RFC3339, status[field].(string))
					require.NoError(t, err)
				}
				source.Object["status"] = status
			}
			require.LessOrEqual(t, written, 1, "%v", source.Object)
		}
	}
}

// TestStatusOfUnreadableSettles: so does that of an object that the schema accepts and decode refuses, here for the digits of a quantity.
func TestStatusOfUnreadableSettles(t *testing.T) {
	t.Parallel()
	source, now, written := untyped(t, object()), epoch, 0
	requests := source.Object["spec"].(map[string]any)["devices"].(map[string]any)["requests"].([]any)
	requests[0].(map[string]any)["exactly"].(map[string]any)["capacity"] = map[string]any{"requests": map[string]any{"memory": strings.Repeat("1", 1001)}}
	source.SetGeneration(3)
	for ; written < 3; written++ {
		obj, err := toBooking(source)
		require.NoError(t, err)
		b := obj.(*Booking)
		require.Error(t, b.Invalid)
		message := b.Invalid.Error()[:20]
		if b.Shows(State{}, "InvalidSpec", message) {
			break
		}
		next := b.Next(State{}, false, Outcome{Planned: "False", Reason: "InvalidSpec", Message: message}, now)
		status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&next)
		require.NoError(t, err)
		source.Object["status"] = status
		now = now.Add(time.Minute)
	}
	require.Equal(t, 1, written)
}

// TestWritersThatAnswerEachOther: if somebody else always writes another status, or writes fail, the pauses get longer, up to a minute, until
// the state of the booking changes. That a booking is in use is noted without such a pause, unless somebody else notes another time.
func TestWritersThatAnswerEachOther(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fails, notes bool
		grace        time.Duration
		// requests are those of nine minutes: 6 at once, 6 with longer pauses, and the last ones a minute apart.
		requests int
	}{
		"another writer": {requests: 6 + 6 + 8}, "failures": {fails: true, requests: 6 + 6 + 8},
		"notes": {notes: true, grace: time.Second, requests: 54},
		// Each second one of the last ones comes as late as a note does that answers nobody.
		"another writer of notes": {notes: true, requests: 6 + 6 + 2*7},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, object(func(o *DeviceBooking) { o.Spec.GracePeriod.Duration = cmp.Or(test.grace, o.Spec.GracePeriod.Duration) }))
			if test.fails {
				s.conflicts = math.MaxInt32
			}
			b := run(t, s)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go b.Write(ctx, new(leads(true)), events.NewFakeRecorder(1000))
			state, before := State{Start: epoch, End: epoch.Add(time.Hour)}, 0
			report := func(times int) int {
				for range times {
					one, now := b.All()[0], time.Now()
					next := one.Next(state, false, Outcome{Planned: metav1.ConditionTrue, Reason: "Held"}, now)
					if test.grace == 0 || state.Active || now.Sub(one.lastUsed(now)) >= one.notesEvery() {
						next.LastUsed = &metav1.Time{Time: now.Truncate(time.Second)}
					}
					if !test.notes {
						next.Conditions[0].Message = now.String()
					}
					b.Report([]Update{{Booking: one, State: state, Next: next}})
					time.Sleep(writePause)
					synctest.Wait()
				}
				all := s.writes + (math.MaxInt32 - s.conflicts)
				if !test.fails {
					all = s.writes
				}
				defer func() { before = all }()
				return all - before
			}
			require.InDelta(t, test.requests, report(9*60), 2, name)
			state.Active = true
			require.Equal(t, steps, report(steps), name)
		})
	}
}

// TestWritesOfOneNamespaceTakeTurns: bookings that are written again and again do not hold up the others of the namespace, and those that were
// not planned come last.
func TestWritesOfOneNamespaceTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var objects []DeviceBooking
		for i := range 2*mostWrites + 1 {
			objects = append(objects, object(func(o *DeviceBooking) { o.Name, o.UID = fmt.Sprint("b", i), types.UID(fmt.Sprint(i)) }))
		}
		s := newServer(t, objects...)
		b := run(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go b.Write(ctx, new(leads(true)), events.NewFakeRecorder(1000))
		for i, want := range []int{mostWrites, 2 * mostWrites, 2*mostWrites + 1} {
			var all []Update
			for k, one := range b.All() {
				next := one.Next(State{}, false, Outcome{Planned: metav1.ConditionTrue, Reason: "Held", Message: fmt.Sprint(i)}, time.Now())
				all = append(all, Update{Booking: one, Next: next, Turn: map[bool]int{true: 1}[k == 0]})
			}
			b.Report(all)
			time.Sleep(writePause)
			synctest.Wait()
			written := 0
			for _, one := range b.All() {
				if len(one.Status.Conditions) > 0 {
					written++
				}
			}
			require.LessOrEqual(t, written, want)
			if i < 2 {
				require.Equal(t, want, written)
				require.Empty(t, b.All()[0].Status.Conditions)
			}
		}
	})
}

// TestWrite: only the leader writes, only what differs, once more after a conflict, and tells who has to know by an event.
func TestWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, object())
		b := run(t, s)
		leading, recorder := new(leads), events.NewFakeRecorder(10)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go b.Write(ctx, leading, recorder)
		report := func(state State, plan Outcome) {
			one := b.All()[0]
			b.Report([]Update{{Booking: one, State: state, Next: one.Next(state, false, plan, time.Now())}})
			time.Sleep(2 * writePause)
			synctest.Wait()
		}
		waits := State{Start: epoch, End: epoch.Add(time.Hour)}
		cannot := Outcome{Planned: metav1.ConditionFalse, Reason: "CannotFit", Message: "no nodes"}
		report(waits, cannot)
		require.Zero(t, s.writes)
		*leading, s.conflicts = true, 1
		report(waits, cannot)
		require.Zero(t, s.writes)
		require.Empty(t, recorder.Events)
		for range 3 {
			report(waits, cannot)
		}
		require.Equal(t, 1, s.writes)
		require.Equal(t, "Warning CannotFit no nodes", <-recorder.Events)
		held := Outcome{Planned: metav1.ConditionTrue, Reason: "Held", Nodes: []string{"n1"}}
		report(waits, held)
		held.Nodes = []string{"n2"}
		report(waits, held)
		require.Equal(t, 2, s.writes, "places that move are written from time to time")
		time.Sleep(placesEvery)
		report(waits, held)
		require.Equal(t, 3, s.writes)
		require.Equal(t, []string{"n2"}, b.All()[0].Status.Nodes)
		require.Empty(t, recorder.Events)
		waits.Ended = Unused
		report(waits, held)
		require.Equal(t, "Normal Unused no pod that it is for was waiting or running for the grace period (from 2026-01-05T12:00:00Z to 2026-01-05T13:00:00Z)", <-recorder.Events)
		require.Empty(t, b.All()[0].Status.Nodes)
	})
}
