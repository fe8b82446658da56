package booking

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"

	_ "time/tzdata" // The image has no time zones.
)

// These limit the work for a booking.
const (
	MostCopies = 64
	// MostRequests limits the requests of a booking with their alternatives, and their selectors.
	MostRequests = 64
	// MostLabels limits the labels of a selector and its expressions, and MostValues the values of an expression.
	MostLabels, MostValues = 16, 32

	longest = 366 * 24 * time.Hour
	// firstYear and lastYear are those of a start: of others, the API does not store the end, or nobody means them.
	firstYear, lastYear = 1990, 8999
)

// A Booking is a DeviceBooking with its expressions parsed. It is immutable.
type Booking struct {
	DeviceBooking
	// Invalid is why nothing can be held for it, nil if something can.
	Invalid error

	pods     labels.Selector
	schedule cron.Schedule
	zone     *time.Location
	// last is the span that was worked out last.
	last atomic.Pointer[span]
}

// toBooking is a cache.TransformFunc. It leaves bookings as they are, because it may be called twice. It never fails: a client for the
// Go type would fail to list all objects because of a single bad one.
func toBooking(obj any) (any, error) {
	source, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	object, err := decode(source)
	if err != nil {
		// Without its status, it would seem to have none each time, which would be written again and again.
		rest := &unstructured.Unstructured{Object: map[string]any{"metadata": source.Object["metadata"], "status": source.Object["status"]}}
		which, lacks := decode(rest)
		if lacks != nil {
			which = DeviceBooking{ObjectMeta: metav1.ObjectMeta{
				Namespace: source.GetNamespace(), Name: source.GetName(), UID: source.GetUID(), ResourceVersion: source.GetResourceVersion(),
				Generation: source.GetGeneration(), CreationTimestamp: source.GetCreationTimestamp(),
			}}
		}
		return &Booking{DeviceBooking: which, Invalid: fmt.Errorf("a field does not have its type in %s: %w; correct that field", Version, err)}, nil
	}
	return Parse(object), nil
}

// decode returns an object without the fields that nobody needs. It rejects quantities that would take too long to read: no server
// has parsed those of a custom resource.
func decode(source *unstructured.Unstructured) (object DeviceBooking, err error) {
	text, err := json.Marshal(source.Object)
	if err != nil {
		return object, err
	}
	if err := quantity.CheckJSON(text, reflect.TypeFor[DeviceBooking](), quantity.IsEndless); err != nil {
		return object, err
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return object, err
	}
	object.ManagedFields = nil
	return object, nil
}

// Parse returns the Booking of an object.
func Parse(object DeviceBooking) *Booking {
	b := &Booking{DeviceBooking: object, zone: time.UTC}
	b.Invalid = errors.Join(b.checkDevices(), b.parsePods(), b.parseTime())
	return b
}

// checkDevices checks what the schema of the CustomResourceDefinition checks as well: another one may be installed.
func (b *Booking) checkDevices() error {
	requests := b.Spec.Devices.Requests
	if n := b.Spec.Count; n < 1 || n > MostCopies {
		return fmt.Errorf("count is %d; it has to be from 1 to %d", n, MostCopies)
	}
	if n := len(requests); n < 1 || n > resourceapi.DeviceRequestsMaxSize {
		return fmt.Errorf("devices.requests has %d requests; it has to have from 1 to %d", n, resourceapi.DeviceRequestsMaxSize)
	}
	all, selectors := 0, 0
	for r := range dra.RequestsIn(requests) {
		if r.AdminAccess {
			return fmt.Errorf("request %s asks for admin access, which takes no devices that could be booked; leave adminAccess out", r.Name())
		}
		all, selectors = all+1, selectors+len(r.Selectors)
	}
	// Each plan evaluates them, in which all bookings and all pods that have waited have their turn.
	if all > MostRequests || selectors > MostRequests {
		return fmt.Errorf("devices.requests has %d requests with their alternatives and %d selectors in all; it may have %d of each", all, selectors, MostRequests)
	}
	return nil
}

func (b *Booking) parsePods() (err error) {
	if (b.Spec.PodSelector == nil) == (b.Spec.PodGroupName == "") {
		return errors.New("podSelector and podGroupName are both set or both missing; set one of them")
	}
	selector := b.Spec.PodSelector
	if selector == nil {
		return nil
	}
	tooMany := func(e metav1.LabelSelectorRequirement) bool { return len(e.Values) > MostValues }
	if len(selector.MatchLabels) > MostLabels || len(selector.MatchExpressions) > MostLabels || slices.ContainsFunc(selector.MatchExpressions, tooMany) {
		return fmt.Errorf("podSelector has more than %d matchLabels or %d matchExpressions or %d values in one of them; select by fewer", MostLabels, MostLabels, MostValues)
	}
	if b.pods, err = metav1.LabelSelectorAsSelector(selector); err != nil {
		return fmt.Errorf("podSelector cannot be parsed: %w; correct it", err)
	}
	return nil
}

func (b *Booking) parseTime() (err error) {
	// The order is the same each time, and with it the message.
	for i, d := range []*time.Duration{&b.Spec.Duration.Duration, &b.Spec.GracePeriod.Duration} {
		if *d < time.Second || *d > longest {
			return fmt.Errorf("%s is %s; it has to be from 1s to %s", [...]string{"duration", "gracePeriod"}[i], *d, longest)
		}
		*d = d.Truncate(time.Second) // The status has no fractions.
	}
	if b.Spec.Start != nil {
		start := b.Spec.Start.UTC().Truncate(time.Second)
		if year := start.Year(); year < firstYear || year > lastYear {
			return fmt.Errorf("start is in the year %d; it has to be from %d to %d", year, firstYear, lastYear)
		}
		b.Spec.Start = &metav1.Time{Time: start}
	}
	switch {
	case b.Spec.Schedule != "":
	case b.Spec.Start == nil:
		return errors.New("start and schedule are missing; set at least one of them")
	case b.Spec.TimeZone != "":
		return errors.New("timeZone is set without schedule; leave it out or set schedule")
	default:
		return nil
	}
	// As in a CronJob, the zone has a field of its own. Times after a pause depend on when the scheduler was started.
	if text := b.Spec.Schedule; strings.Contains(text, "TZ") || strings.Contains(text, "@every") {
		return fmt.Errorf("schedule is %q; it has to be five fields as in a CronJob without TZ and @every", text)
	}
	if b.schedule, err = cron.ParseStandard(b.Spec.Schedule); err != nil {
		return fmt.Errorf("schedule %q cannot be parsed: %w; correct it", b.Spec.Schedule, err)
	}
	if b.Spec.TimeZone != "" {
		if b.zone, err = time.LoadLocation(b.Spec.TimeZone); err != nil || strings.EqualFold(b.Spec.TimeZone, "Local") {
			return fmt.Errorf("timeZone is %q, which is no time zone; take a name such as Europe/Berlin", b.Spec.TimeZone)
		}
	}
	if b.next(b.first()).IsZero() {
		return fmt.Errorf("schedule %q has no time in the five years after the start; correct it", b.Spec.Schedule)
	}
	return nil
}

// IsFor reports whether the devices are for a pod; group is "namespace/name" of its PodGroup.
func (b *Booking) IsFor(pod *v1.Pod, group string) bool {
	switch {
	case pod.Namespace != b.Namespace:
		return false
	case b.Spec.PodGroupName != "":
		return group == b.Namespace+"/"+b.Spec.PodGroupName
	}
	return b.pods != nil && b.pods.Matches(labels.Set(pod.Labels))
}

// Copy returns the claim that stands for one copy, by its number.
func (b *Booking) Copy(number int) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.Namespace, Name: fmt.Sprintf("%s-%d", b.Name, number), UID: types.UID(fmt.Sprintf("%s/%d", b.UID, number)),
		},
		Spec: resourceapi.ResourceClaimSpec{Devices: b.Spec.Devices},
	}
}

// Needs returns the classes of the devices of a copy, and how many devices it has at least.
func (b *Booking) Needs() (classes map[string]bool, devices int) {
	classes = make(map[string]bool)
	least := make(map[string]int64)
	for r := range dra.RequestsIn(b.Spec.Devices.Requests) {
		classes[r.Class] = true
		n := r.Count
		if r.All() {
			n = 1
		}
		if known, found := least[r.Parent]; !found || n < known {
			least[r.Parent] = n
		}
	}
	for _, n := range least {
		devices += int(n)
	}
	return classes, max(devices, 1)
}
