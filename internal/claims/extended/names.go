package extended

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

// ClassFor returns the class behind an extended resource, nil if there is none: the class that the
// resource is named after, otherwise, of the classes with that extendedResourceName, the one that
// was created last, and of these the first by name.
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

// compareClasses returns a negative number if a has precedence over b, given the same
// extendedResourceName.
func compareClasses(a, b *resourceapi.DeviceClass) int {
	return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// nameOf returns the extendedResourceName of a class, "" if it has none.
func nameOf(class *resourceapi.DeviceClass) v1.ResourceName {
	if class == nil || class.Spec.ExtendedResourceName == nil {
		return ""
	}
	return v1.ResourceName(*class.Spec.ExtendedResourceName)
}

// Names corrects kube-scheduler's cache of extended resources, which all plugins use. By itself,
// that cache forgets a class when another one takes over its extendedResourceName, and keeps a
// class's former name.
//
// The cache calls Names after each event about a class, before the scheduling queue is told of the
// event. Names corrects the cache with further events. The queue is told of them as well, so that
// pods that wait for the resource are woken. Events come one after the other.
type Names struct {
	cache *extendedresourcecache.ExtendedResourceCache
	// changed is called when names may refer to other classes.
	changed func()
	classes map[string]*resourceapi.DeviceClass // by name of the class
	naming  map[v1.ResourceName][]*resourceapi.DeviceClass
	// mending is set during a correction of the cache.
	mending bool
}

// FollowNames corrects the cache from now on. It must be called before the cache receives events.
// Resolvers of other types are ignored.
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

// follow processes the change of a class, and corrects all names that it has or had.
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

// replace replaces a class; known and after may be nil.
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

// mend corrects the cache's class for an extendedResourceName. The cache may hold an earlier
// version of the class: its name does not change.
func (n *Names) mend(name v1.ResourceName) {
	want, have := ClassFor(name, slices.Values(n.naming[name])), n.cache.GetDeviceClass(name)
	if isSame(want, have) {
		return
	}
	if have != nil {
		// A class without a name only removes this extendedResourceName.
		n.cache.OnDelete(&resourceapi.DeviceClass{Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: (*string)(&name)}})
	}
	if want != nil {
		n.cache.OnAdd(want, false)
	}
}

// mendImplicit corrects the cache for the resource that is named after a class.
func (n *Names) mendImplicit(class string) {
	want, have := n.classes[class], n.cache.GetDeviceClass(v1.ResourceName(resourceapi.ResourceDeviceClassPrefix+class))
	switch {
	case isSame(want, have):
	case want == nil:
		n.cache.OnDelete(&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: class}})
	default:
		// The cache would ignore a class with an extendedResourceName if another class takes
		// precedence for that name.
		alone := want.DeepCopy()
		alone.Spec.ExtendedResourceName = nil
		n.cache.OnAdd(alone, false)
	}
}

func isSame(a, b *resourceapi.DeviceClass) bool {
	return a == b || a != nil && b != nil && a.Name == b.Name && a.UID == b.UID
}
