package extendedresource

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// ClassFor returns the class that stands for an extended resource, nil if there is none: the class after which the resource
// is named, else of those with that extendedResourceName the one that was created last, and of these the first by name.
func ClassFor(resource v1.ResourceName, classes iter.Seq[*resourceapi.DeviceClass]) (found *resourceapi.DeviceClass) {
	implicit, isImplicit := strings.CutPrefix(string(resource), resourceapi.ResourceDeviceClassPrefix)
	for class := range classes {
		switch {
		case isImplicit && class.Name == implicit:
			return class
		case isImplicit || nameOf(class) != resource:
		case found == nil || compareClasses(class, found) < 0:
			found = class
		}
	}
	return found
}

// compareClasses is negative if a counts when both have the same extendedResourceName.
func compareClasses(a, b *resourceapi.DeviceClass) int {
	return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// nameOf is the extendedResourceName of a class, "" if it has none.
func nameOf(class *resourceapi.DeviceClass) v1.ResourceName {
	if class == nil || class.Spec.ExtendedResourceName == nil {
		return ""
	}
	return v1.ResourceName(*class.Spec.ExtendedResourceName)
}

// Names keeps kube-scheduler's cache of extended resources right, which all plugins ask. By itself, that cache forgets a class
// when another one takes over its extendedResourceName, and keeps a name that a class had before.
//
// The cache calls it after each event about a class, before the scheduling queue hears of the event. What is wrong by then,
// it hands to the cache again, as an event that the queue hears of as well: pods that wait for the resource are woken.
// Events come one after the other.
type Names struct {
	cache *extendedresourcecache.ExtendedResourceCache
	// changed is called when names may stand for other classes.
	changed func()
	classes map[string]*resourceapi.DeviceClass // by name of the class
	naming  map[v1.ResourceName][]*resourceapi.DeviceClass
	// mending is set while the cache is handed something.
	mending bool
}

// FollowNames keeps the cache right from now on. It has to be called before the cache hears of events. Another kind of
// resolver is left alone.
func FollowNames(resolver fwk.DeviceClassResolver, changed func()) {
	known, ok := resolver.(*extendedresourcecache.ExtendedResourceCache)
	if !ok || known == nil {
		return
	}
	known.AddEventHandler(&Names{
		cache: known, changed: changed,
		classes: make(map[string]*resourceapi.DeviceClass), naming: make(map[v1.ResourceName][]*resourceapi.DeviceClass),
	})
}

var _ cache.ResourceEventHandler = &Names{}

// OnAdd implements cache.ResourceEventHandler.
func (n *Names) OnAdd(obj any, _ bool) { n.follow(nil, obj) }

// OnUpdate implements cache.ResourceEventHandler.
func (n *Names) OnUpdate(oldObj, newObj any) { n.follow(oldObj, newObj) }

// OnDelete implements cache.ResourceEventHandler.
func (n *Names) OnDelete(obj any) { n.follow(obj, nil) }

// follow takes over what became of a class, and mends all names that it has or had.
func (n *Names) follow(oldObj, newObj any) {
	if n.mending {
		return
	}
	before, after := informer.Versions[resourceapi.DeviceClass](oldObj, newObj)
	class := cmp.Or(after, before)
	if class == nil {
		return
	}
	known := n.classes[class.Name]
	n.replace(known, after)
	n.mending = true
	for _, name := range []v1.ResourceName{nameOf(known), nameOf(before), nameOf(after)} {
		if name != "" {
			n.mend(name)
		}
	}
	n.mendImplicit(class.Name)
	n.mending = false
	n.changed()
}

// replace exchanges a class; before and after may be nil.
func (n *Names) replace(known, after *resourceapi.DeviceClass) {
	if known != nil {
		delete(n.classes, known.Name)
		name := nameOf(known)
		n.naming[name] = slices.DeleteFunc(n.naming[name], func(c *resourceapi.DeviceClass) bool { return c == known })
		if len(n.naming[name]) == 0 {
			delete(n.naming, name)
		}
	}
	if after != nil {
		n.classes[after.Name] = after
		n.naming[nameOf(after)] = append(n.naming[nameOf(after)], after)
	}
}

// mend has the cache know which class stands for an extendedResourceName. Of a cached class only an earlier version may be
// known: the name of the class does not change.
func (n *Names) mend(name v1.ResourceName) {
	want, have := ClassFor(name, slices.Values(n.naming[name])), n.cache.GetDeviceClass(name)
	if isSame(want, have) {
		return
	}
	if have != nil {
		// Without a name of its own it takes away nothing but this one.
		n.cache.OnDelete(&resourceapi.DeviceClass{Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: (*string)(&name)}})
	}
	if want != nil {
		n.cache.OnAdd(want, false)
	}
}

// mendImplicit has the cache know the resource that is named after a class.
func (n *Names) mendImplicit(class string) {
	want, have := n.classes[class], n.cache.GetDeviceClass(v1.ResourceName(resourceapi.ResourceDeviceClassPrefix+class))
	switch {
	case isSame(want, have):
	case want == nil:
		n.cache.OnDelete(&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: class}})
	default:
		// With its extendedResourceName, the cache would leave out all of a class that another one with that name outranks.
		alone := want.DeepCopy()
		alone.Spec.ExtendedResourceName = nil
		n.cache.OnAdd(alone, false)
	}
}

func isSame(a, b *resourceapi.DeviceClass) bool {
	return a == b || a != nil && b != nil && a.Name == b.Name && a.UID == b.UID
}
