package booking

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	schedulinginformers "k8s.io/client-go/informers/scheduling/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// While the resource is missing, it is looked for often at first, because it may be installed soon; later rarely.
const (
	lookSoon, lookLater = 10 * time.Second, time.Minute
	// looksSoon is the number of looks at the short interval.
	looksSoon = 6
)

// known limits the wait for the first list of bookings. Nothing is planned before; other pods must not wait for long.
const known = 5 * time.Second

// Bookings has the bookings of the cluster. It is safe for concurrent use.
type Bookings struct {
	// served has no client without a server.
	served informer.Optional
	kube   kubernetes.Interface
	// first is closed once the bookings are known for the first time, or there are none.
	first                 chan struct{}
	firstOnce             sync.Once
	forbidden, unwritable sync.Once

	mutex sync.RWMutex
	// known are complete, or empty: also if there is no such resource.
	known stores
	// refusedSince is since when the server does not let the scheduler read bookings, the zero time if it does.
	refusedSince time.Time

	// updates has the statuses of the last plan, unless Write has taken them.
	updates chan []Update
}

// stores have the bookings and what decides about them. They are nil together.
type stores struct {
	bookings, classes cache.Store
	quotas            cache.Indexer
}

// New returns Bookings that Run fills. config is the scheduler's own. If it is nil, for tests, Set provides the bookings.
func New(config *rest.Config, kube kubernetes.Interface) (*Bookings, error) {
	if config == nil {
		b := newBookings(informer.Optional{}, kube)
		close(b.first)
		return b, nil
	}
	served, err := informer.NewOptional(config, resource)
	return newBookings(served, kube), err
}

func newBookings(served informer.Optional, kube kubernetes.Interface) *Bookings {
	return &Bookings{served: served, kube: kube, first: make(chan struct{}), updates: make(chan []Update, 1)}
}

// Await returns once the bookings are known, or do not get known for some seconds.
func (b *Bookings) Await(ctx context.Context) {
	select {
	case <-b.first:
	case <-ctx.Done():
	case <-time.After(known):
	}
}

// All returns the bookings, in the order of their namespaces and names. They must not be modified.
func (b *Bookings) All() (all []*Booking) {
	b.mutex.RLock()
	defer b.mutex.RUnlock()
	if b.known.bookings == nil || b.isRefused() {
		return nil
	}
	keys := b.known.bookings.ListKeys()
	slices.Sort(keys)
	for _, key := range keys {
		if obj, found, err := b.known.bookings.GetByKey(key); err == nil && found {
			all = append(all, obj.(*Booking))
		}
	}
	return all
}

// Priority returns the priority of a booking: that of its class, or the cluster's default.
func (b *Bookings) Priority(booking *Booking) (int32, error) {
	b.mutex.RLock()
	defer b.mutex.RUnlock()
	name, priority, best := booking.Spec.PriorityClassName, int32(0), ""
	if b.known.classes == nil {
		return 0, fmt.Errorf("the PriorityClasses are not known any more because the CustomResourceDefinition of DeviceBookings is gone; install it again")
	}
	for _, obj := range b.known.classes.List() {
		switch class := obj.(*schedulingapi.PriorityClass); {
		case name != "" && class.Name == name:
			return class.Value, nil
		case name == "" && class.GlobalDefault && (best == "" || class.Value < priority): // As admission chooses among several.
			priority, best = class.Value, class.Name
		}
	}
	if name != "" {
		return 0, fmt.Errorf("priorityClassName is %q and there is no such PriorityClass; create it or correct the name", name)
	}
	return priority, nil
}

// Set replaces the bookings, and the PriorityClasses and ResourceQuotas by others. It is for tests without a server.
func (b *Bookings) Set(bookings []DeviceBooking, others ...metav1.Object) {
	known := stores{
		bookings: cache.NewStore(cache.MetaNamespaceKeyFunc), classes: cache.NewStore(cache.MetaNamespaceKeyFunc),
		quotas: cache.NewIndexer(cache.MetaNamespaceKeyFunc, byNamespace),
	}
	for _, object := range bookings {
		_ = known.bookings.Add(Parse(object)) // It fails only without a key, and an object has one.
	}
	for _, other := range others {
		if quota, is := other.(*v1.ResourceQuota); is {
			_ = known.quotas.Add(quota)
		} else {
			_ = known.classes.Add(other)
		}
	}
	b.use(known)
}

// Run follows the bookings until the context ends. While the server does not have the resource, Run looks for it from time to time.
func (b *Bookings) Run(ctx context.Context) {
	if b.served.Client == nil {
		return
	}
	for looks := 1; ctx.Err() == nil; looks++ {
		if served, err := b.served.Served(ctx); err == nil && served {
			looks = 0
			b.follow(ctx)
		} else if err == nil {
			b.firstOnce.Do(func() { close(b.first) })
		}
		pause := lookSoon
		if looks >= looksSoon {
			pause = lookLater
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// follow keeps the bookings in sync with the server until the resource or the context is gone.
func (b *Bookings) follow(parent context.Context) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	classes := schedulinginformers.NewPriorityClassInformer(b.kube, 0, cache.Indexers{})
	quotas := coreinformers.NewResourceQuotaInformer(b.kube, metav1.NamespaceAll, 0, byNamespace)
	_ = quotas.SetTransform(toQuota)
	var running sync.WaitGroup
	begin := func(source cache.SharedIndexInformer) {
		for _, one := range []cache.SharedIndexInformer{classes, quotas} {
			// It has not run yet.
			_ = one.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) { b.observe(ctx, err) })
			running.Go(func() { one.RunWithContext(ctx) })
		}
		running.Go(func() {
			if cache.WaitForCacheSync(ctx.Done(), source.HasSynced, classes.HasSynced, quotas.HasSynced) {
				b.use(stores{source.GetStore(), classes.GetStore(), quotas.GetIndexer()})
				b.firstOnce.Do(func() { close(b.first) })
			}
		})
	}
	if b.served.Follow(ctx, toBooking, begin, b.observeBookings) {
		klog.FromContext(ctx).Info("The CustomResourceDefinition of DeviceBookings is gone. Nothing is held for them until it is installed again")
	}
	cancel()
	running.Wait()
	b.use(stores{})
}

// longRefused is the time after which bookings that may not be read any more hold nothing. A starting server may refuse for a moment.
const longRefused = time.Minute

// observeBookings notes whether bookings may be read: of those that are known from before, nobody would see an edit or the end.
func (b *Bookings) observeBookings(ctx context.Context, err error) {
	b.observe(ctx, err)
	b.mutex.Lock()
	defer b.mutex.Unlock()
	switch {
	case err == nil:
		b.refusedSince = time.Time{}
	case apierrors.IsForbidden(err) && b.refusedSince.IsZero():
		b.refusedSince = time.Now()
	}
}

// isRefused reports whether bookings may not be read any more.
func (b *Bookings) isRefused() bool {
	return !b.refusedSince.IsZero() && time.Since(b.refusedSince) >= longRefused
}

// observe says once that a right is missing.
func (b *Bookings) observe(ctx context.Context, err error) {
	if apierrors.IsForbidden(err) {
		b.forbidden.Do(func() {
			klog.FromContext(ctx).Error(err, "The scheduler may not read DeviceBookings, or what they need, and holds nothing for them; give it the ClusterRole quartermaster-device-bookings "+
				"(kubectl apply -k manifests/device-bookings)")
		})
	}
}

// use sets what is known.
func (b *Bookings) use(known stores) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.known = known
}
