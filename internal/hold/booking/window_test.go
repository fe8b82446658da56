package booking

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var epoch = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC) // A Monday.

// at returns a time of the API.
func at(after time.Duration) *metav1.Time { return &metav1.Time{Time: epoch.Add(after)} }

// object returns a booking from one hour after the epoch on, for an hour.
func object(edits ...func(*DeviceBooking)) DeviceBooking {
	o := DeviceBooking{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: "uid-b", Generation: 1, CreationTimestamp: *at(0)},
		Spec: Spec{
			Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 2,
			}}}},
			Count: 1, Start: at(time.Hour), Duration: metav1.Duration{Duration: time.Hour}, GracePeriod: metav1.Duration{Duration: 15 * time.Minute},
			PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "train"}},
		},
	}
	for _, edit := range edits {
		edit(&o)
	}
	return o
}

// repeated makes a booking a repeated one.
func repeated(schedule string, duration time.Duration) func(*DeviceBooking) {
	return func(o *DeviceBooking) { o.Spec.Schedule, o.Spec.Duration.Duration = schedule, duration }
}

// life follows a booking, whose status is written each time.
type life struct {
	t *testing.T
	DeviceBooking
}

// look returns the state after some time, as another process sees it that knows only the object.
func (l *life) look(after time.Duration, used bool) State {
	l.t.Helper()
	b, now := Parse(l.DeviceBooking), epoch.Add(after)
	require.NoError(l.t, b.Invalid)
	s := b.At(now, used)
	require.Equal(l.t, s, b.At(now, used), "what is remembered is the same")
	require.Equal(l.t, s, Parse(l.DeviceBooking).At(now, used), "another process comes to the same")
	l.Status = b.Next(s, used, Outcome{Planned: metav1.ConditionTrue, Reason: "Held"}, now)
	return s
}

// reasons returns the reasons of the conditions that are true.
func (l *life) reasons() (all string) {
	for _, c := range l.Status.Conditions {
		if c.Status == metav1.ConditionTrue {
			all += " " + c.Type + "=" + c.Reason
		}
	}
	return strings.TrimSpace(all)
}

// TestOnce: a booking waits for its start, is active, and is over. Nothing brings it back.
func TestOnce(t *testing.T) {
	t.Parallel()
	l := &life{t, object()}
	for _, step := range []struct {
		after time.Duration
		used  bool
		want  string
	}{
		{0, false, "Planned=Held"},
		{time.Hour - time.Second, true, "Planned=Held"},
		{time.Hour, false, "Active=Started Planned=Held"},
		{70 * time.Minute, true, "Active=Started Planned=Held"},
		{85 * time.Minute, false, "Active=Started Planned=Held"},
		{90 * time.Minute, true, "Active=Started Planned=Held"},
		{2*time.Hour - time.Second, true, "Active=Started Planned=Held"},
		{2 * time.Hour, true, "Ended=Over"},
		{9 * time.Hour, true, "Ended=Over"},
	} {
		s := l.look(step.after, step.used)
		require.ElementsMatch(t, strings.Fields(step.want), strings.Fields(l.reasons()), "after %s", step.after)
		require.Equal(t, epoch.Add(time.Hour), s.Start)
		require.Equal(t, epoch.Add(2*time.Hour), s.End)
	}
}

// TestUnused: without pods for the grace period, the booking ends for good; pods that come later do not bring it back. How long it was
// used is known after a restart, and nobody ends it too early.
func TestUnused(t *testing.T) {
	t.Parallel()
	l := &life{t, object()}
	l.look(time.Hour, false)
	require.True(t, l.look(75*time.Minute, false).Active, "use is noted once a minute only")
	require.Equal(t, Unused, l.look(76*time.Minute, false).Ended)
	require.Equal(t, "Ended=Unused", l.reasons())
	require.Equal(t, Unused, l.look(77*time.Minute, true).Ended)
	require.Equal(t, Unused, l.look(2*time.Hour, true).Ended, "that it was unused is still known when the time is over")

	l = &life{t, object()}
	for minute := 60; minute <= 70; minute++ {
		l.look(time.Duration(minute)*time.Minute, true)
	}
	require.Equal(t, at(70*time.Minute), l.Status.LastUsed)
	require.True(t, l.look(85*time.Minute, false).Active)
	require.Equal(t, Unused, l.look(86*time.Minute, false).Ended)
}

// TestStartedBefore: a booking whose start is past begins with its creation, and one that is over says so at once.
func TestStartedBefore(t *testing.T) {
	t.Parallel()
	l := &life{t, object(func(o *DeviceBooking) { o.Spec.Start = at(-30 * time.Minute) })}
	require.True(t, l.look(14*time.Minute, false).Active, "the grace period begins with the creation")
	l = &life{t, object(func(o *DeviceBooking) {
		o.Spec.Start = &metav1.Time{Time: time.Date(firstYear, 1, 1, 0, 0, 0, 0, time.UTC)}
	})}
	require.Equal(t, Over, l.look(0, true).Ended)
}

// TestRepeated: each time is planned after the former one, also if that ended early, whose end stays in the status until the next start.
func TestRepeated(t *testing.T) {
	t.Parallel()
	l := &life{t, object(repeated("0 14 * * *", time.Hour))}
	first, day := 2*time.Hour, 24*time.Hour
	require.Equal(t, epoch.Add(first), l.look(0, false).Start)
	require.True(t, l.look(first, true).Active)
	require.True(t, l.look(first+59*time.Minute, true).Active)
	s := l.look(first+time.Hour, true)
	require.Equal(t, State{Start: epoch.Add(first + day), End: epoch.Add(first + day + time.Hour)}, s)
	require.True(t, l.look(first+day, false).Active)
	require.Equal(t, Unused, l.look(first+day+20*time.Minute, false).Ended)
	s = l.look(first+day+20*time.Minute+time.Second, true)
	require.Equal(t, State{Start: epoch.Add(first + 2*day), End: epoch.Add(first + 2*day + time.Hour)}, s)
	require.ElementsMatch(t, []string{"Ended=Unused", "Planned=Held"}, strings.Fields(l.reasons()))
	require.True(t, l.look(first+2*day, true).Active)
	require.ElementsMatch(t, []string{"Active=Started", "Planned=Held"}, strings.Fields(l.reasons()))
	// Nobody looked when the next one started: it ends as well, and says when.
	l = &life{t, object(repeated("0 14 * * *", time.Hour))}
	l.look(first, false)
	l.look(first+20*time.Minute, false)
	l.look(first+day+30*time.Minute, false)
	require.Equal(t, epoch.Add(first+2*day), l.look(first+day+31*time.Minute, false).Start)
}

// TestTimeZone: the schedule is that of the zone, with its summer time.
func TestTimeZone(t *testing.T) {
	t.Parallel()
	l := &life{t, object(repeated("0 14 * * *", time.Hour), func(o *DeviceBooking) { o.Spec.TimeZone = "Europe/Berlin" })}
	require.True(t, l.look(0, false).Start.Equal(epoch.Add(time.Hour)))
	require.Equal(t, 12, l.look(181*24*time.Hour, false).Start.UTC().Hour())
}

// TestZonesThatLeftOutTime: no zone makes the search for the next time endless. Each time is later than the one before, and is that of the
// clock of the zone unless it left that out.
func TestZonesThatLeftOutTime(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ start, schedule, zone, want string }{
		{"2011-12-20T00:00:00Z", "0 0 15 * *", "Pacific/Apia", "2012-01-14T10:00:00Z"},
		{"2011-12-29T12:00:00Z", "0 12 * * *", "Pacific/Apia", "2011-12-29T22:00:00Z"},
		{"2011-12-29T22:00:00Z", "0 12 * * *", "Pacific/Apia", "2011-12-30T22:00:00Z"},
		{"1993-08-15T00:00:00Z", "0 0 1 * *", "Pacific/Kwajalein", "1993-08-31T12:00:00Z"},
		{"1994-12-20T00:00:00Z", "0 0 15 * *", "Pacific/Kiritimati", "1995-01-14T10:00:00Z"},
		{"2026-03-28T12:00:00Z", "0 14 * * *", "Europe/Berlin", "2026-03-28T13:00:00Z"},
		{"2026-03-29T00:00:00Z", "0 14 * * *", "Europe/Berlin", "2026-03-29T12:00:00Z"},
		{"2026-10-25T00:15:00Z", "0 3 * * *", "Europe/Berlin", "2026-10-25T02:00:00Z"},
	} {
		start, err := time.Parse(time.RFC3339, test.start)
		require.NoError(t, err)
		b := Parse(object(repeated(test.schedule, time.Hour), func(o *DeviceBooking) { o.Spec.Start, o.Spec.TimeZone = &metav1.Time{Time: start}, test.zone }))
		require.Equal(t, test.want, b.next(start).Format(time.RFC3339), "%v", test)
	}
	for _, zone := range []string{"Europe/Berlin", "Pacific/Apia", "Australia/Lord_Howe", "Africa/Casablanca"} {
		b := Parse(object(repeated("*/10 * * * *", time.Hour), func(o *DeviceBooking) { o.Spec.TimeZone = zone }))
		require.NoError(t, b.Invalid)
		for at, end := time.Date(2011, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2012, 2, 1, 0, 0, 0, 0, time.UTC); at.Before(end); {
			next := b.next(at)
			require.True(t, next.After(at) && next.Sub(at) <= 90*time.Minute, "%s: %s after %s", zone, next, at)
			at = next
		}
	}
}

// TestOverlap: a time that lasts until after the next start goes on with that, and each has a grace period of its own.
func TestOverlap(t *testing.T) {
	t.Parallel()
	l := &life{t, object(repeated("0 * * * *", 90*time.Minute))}
	require.Equal(t, epoch.Add(time.Hour), l.look(0, false).Start)
	require.True(t, l.look(time.Hour, true).Active)
	require.True(t, l.look(2*time.Hour+20*time.Minute, true).Active)
	s := l.look(2*time.Hour+30*time.Minute, true)
	require.True(t, s.Active)
	require.Equal(t, epoch.Add(2*time.Hour), s.Start)
	require.Equal(t, Unused, l.look(2*time.Hour+50*time.Minute, false).Ended)
	require.Equal(t, epoch.Add(3*time.Hour), l.look(2*time.Hour+51*time.Minute, false).Start)
	s = l.look(3*time.Hour+10*time.Minute, false)
	require.True(t, s.Active, "the grace period begins with this start")
	require.Equal(t, epoch.Add(3*time.Hour), s.Start)
}

// TestClockJumps: a clock that was a year ahead for a moment ends no later time, neither of a repeated booking nor of another one.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	l := &life{t, object()}
	require.Equal(t, Over, l.look(year, false).Ended)
	require.Empty(t, l.look(0, false).Ended)
	require.True(t, l.look(time.Hour, false).Active)

	l = &life{t, object(repeated("0 14 * * *", time.Hour))}
	require.True(t, l.look(year+2*time.Hour, true).Active)
	require.Equal(t, Unused, l.look(year+2*time.Hour+30*time.Minute, false).Ended)
	require.Equal(t, epoch.Add(2*time.Hour), l.look(0, false).Start)
	require.True(t, l.look(2*time.Hour, false).Active)
}

// TestClocksDiffer: a scheduler whose clock is minutes ahead of another's neither ends a booking for it too early nor has it note the use in
// turn, and the booking ends all the same.
func TestClocksDiffer(t *testing.T) {
	t.Parallel()
	const ahead = 5 * time.Minute
	l := &life{t, object()}
	noted := 0
	look := func(after time.Duration, used bool) State {
		before := l.Status.LastUsed
		s := l.look(after, used)
		if !before.Equal(l.Status.LastUsed) {
			noted++
		}
		return s
	}
	for second := range 20 * 60 {
		now := 70*time.Minute + time.Duration(second)*time.Second
		require.True(t, look(now+ahead, true).Active)
		require.True(t, look(now, true).Active)
	}
	require.Equal(t, 20, noted, "once a minute")
	last := 90 * time.Minute
	require.True(t, look(last, false).Active, "it was in use a moment ago")
	require.True(t, look(last+15*time.Minute, false).Active)
	require.Equal(t, Unused, look(last+ahead+16*time.Minute, false).Ended)
}

// many returns some labels.
func many(n int) map[string]string {
	labels := make(map[string]string)
	for i := range n {
		labels[fmt.Sprint("l", i)] = "x"
	}
	return labels
}

// TestInvalid: what cannot be understood is said with what to do, and neither panics nor takes long.
func TestInvalid(t *testing.T) {
	t.Parallel()
	for want, edit := range map[string]func(*DeviceBooking){
		"schedule \"every day\" cannot be parsed":         repeated("every day", time.Hour),
		"schedule \"0 0 30 2 *\" has no time in the five": repeated("0 0 30 2 *", time.Hour),
		"schedule is \"TZ=\"; it has to be five fields":   repeated("TZ=", time.Hour),
		"schedule is \"@every 1s\"":                       repeated("@every 1s", time.Hour),
		"timeZone is \"Mars\"":                            func(o *DeviceBooking) { o.Spec.Schedule, o.Spec.TimeZone = "@daily", "Mars" },
		"timeZone is \"local\"":                           func(o *DeviceBooking) { o.Spec.Schedule, o.Spec.TimeZone = "@daily", "local" },
		"duration is 0s; it has to be from 1s":            func(o *DeviceBooking) { o.Spec.Duration.Duration = 0 },
		"duration is -1h0m0s":                             func(o *DeviceBooking) { o.Spec.Duration.Duration = -time.Hour },
		"gracePeriod is 0s":                               func(o *DeviceBooking) { o.Spec.GracePeriod.Duration = 0 },
		"gracePeriod is 2562047h47m16.854775807s":         func(o *DeviceBooking) { o.Spec.GracePeriod.Duration = math.MaxInt64 },
		"start is in the year 1;":                         func(o *DeviceBooking) { o.Spec.Start = &metav1.Time{Time: time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)} },
		"start is in the year 9999; it has to be from": func(o *DeviceBooking) {
			o.Spec.Start = &metav1.Time{Time: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
		},
		"timeZone is set without schedule":         func(o *DeviceBooking) { o.Spec.TimeZone = "Europe/Berlin" },
		"podSelector has more than 16 matchLabels": func(o *DeviceBooking) { o.Spec.PodSelector.MatchLabels = many(17) },
		"or 16 matchExpressions": func(o *DeviceBooking) {
			o.Spec.PodSelector.MatchExpressions = make([]metav1.LabelSelectorRequirement, 17)
		},
		"or 32 values in one of them": func(o *DeviceBooking) {
			o.Spec.PodSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpNotIn, Values: make([]string, 33)}}
		},
		"count is 0; it has to be from 1 to 64": func(o *DeviceBooking) { o.Spec.Count = 0 },
		"count is 2147483647":                   func(o *DeviceBooking) { o.Spec.Count = 2147483647 },
		"devices.requests has 0 requests":       func(o *DeviceBooking) { o.Spec.Devices.Requests = nil },
		"has 1 requests with their alternatives and 65 selectors in all; it may have 64 of each": func(o *DeviceBooking) {
			o.Spec.Devices.Requests[0].Exactly.Selectors = make([]resourceapi.DeviceSelector, MostRequests+1)
		},
		"has 72 requests with their alternatives": func(o *DeviceBooking) {
			o.Spec.Devices.Requests = slices.Repeat([]resourceapi.DeviceRequest{{FirstAvailable: make([]resourceapi.DeviceSubRequest, 8)}}, 9)
		},
		"asks for admin access":                     func(o *DeviceBooking) { o.Spec.Devices.Requests[0].Exactly.AdminAccess = new(true) },
		"start and schedule are missing":            func(o *DeviceBooking) { o.Spec.Start = nil },
		"podSelector and podGroupName are both set": func(o *DeviceBooking) { o.Spec.PodGroupName = "g" },
		"podSelector cannot be parsed":              func(o *DeviceBooking) { o.Spec.PodSelector.MatchLabels = map[string]string{"a b": "c"} },
	} {
		require.ErrorContains(t, Parse(object(edit)).Invalid, want)
	}
	for want, field := range map[string]any{
		"a field does not have its type": map[string]any{"count": "many"},
		"quantity":                       map[string]any{"devices": map[string]any{"requests": []any{map[string]any{"name": "a", "exactly": map[string]any{"capacity": map[string]any{"requests": map[string]any{"memory": "1e999999999"}}}}}}},
		"a field does not have its type in quartermaster": map[string]any{"duration": "for ever"},
	} {
		stored, err := toBooking(&unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "ns", "name": "b"}, "spec": field}})
		require.NoError(t, err)
		require.ErrorContains(t, stored.(*Booking).Invalid, want)
		require.Equal(t, "ns", stored.(*Booking).Namespace)
	}
}

// TestIsFor: pods of other namespaces are never selected, by labels and by group.
func TestIsFor(t *testing.T) {
	t.Parallel()
	selects := Parse(object())
	group := Parse(object(func(o *DeviceBooking) { o.Spec.PodSelector, o.Spec.PodGroupName = nil, "train" }))
	all := Parse(object(func(o *DeviceBooking) { o.Spec.PodSelector = &metav1.LabelSelector{} }))
	broken := Parse(object(func(o *DeviceBooking) { o.Spec.PodSelector.MatchLabels = map[string]string{"a b": "c"} }))
	for _, test := range []struct {
		namespace, app, group string
		want                  [4]bool
	}{
		{"ns", "train", "", [4]bool{true, false, true, false}},
		{"ns", "serve", "ns/train", [4]bool{false, true, true, false}},
		{"other", "train", "other/train", [4]bool{}},
		{"other", "train", "ns/train", [4]bool{}},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: test.namespace, Labels: map[string]string{"app": test.app}}}
		got := [4]bool{}
		for i, b := range []*Booking{selects, group, all, broken} {
			got[i] = b.IsFor(pod, test.group)
		}
		require.Equal(t, test.want, got, "%v", test)
	}
}

// TestNeeds: a copy has as many devices as its requests at least ask for.
func TestNeeds(t *testing.T) {
	t.Parallel()
	b := Parse(object(func(o *DeviceBooking) {
		o.Spec.Devices.Requests = append(o.Spec.Devices.Requests,
			resourceapi.DeviceRequest{Name: "nic", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "a", DeviceClassName: "fast", Count: 1}, {Name: "b", DeviceClassName: "slow", Count: 4}}},
			resourceapi.DeviceRequest{Name: "all", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "disk", AllocationMode: resourceapi.DeviceAllocationModeAll}})
	}))
	classes, devices := b.Needs()
	require.Equal(t, map[string]bool{"gpu": true, "fast": true, "slow": true, "disk": true}, classes)
	require.EqualValues(t, 2+1+1, devices)
}
