package extended

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

var (
	classNames    = []string{"a", "b", "c", "d"}
	resourceNames = []string{"", "example.com/x", "example.com/y", "example.com/z"}
)

// history is a cluster's classes over time, and a scheduler that hears of them.
type history struct {
	t       *testing.T
	random  *rand.Rand
	classes map[string]*resourceapi.DeviceClass
	seconds int64
	made    int
	log     []string
	cache   *extendedresourcecache.ExtendedResourceCache
	// queued are the classes that the scheduling queue was told to exist, during one event.
	queued []*resourceapi.DeviceClass
}

// restart begins with a scheduler that lists all classes, in any order.
func (h *history) restart() {
	h.cache = extendedresourcecache.NewExtendedResourceCache(klog.Background())
	FollowNames(h.cache, func() {})
	h.cache.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { h.queued = append(h.queued, obj.(*resourceapi.DeviceClass)) },
		UpdateFunc: func(_, obj any) { h.queued = append(h.queued, obj.(*resourceapi.DeviceClass)) },
	})
	names := slices.Clone(classNames)
	h.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		if class := h.classes[name]; class != nil {
			h.cache.OnAdd(class, true)
		}
	}
}

// happens has something happen to a class.
func (h *history) happens() string {
	name, resource := classNames[h.random.Intn(len(classNames))], resourceNames[h.random.Intn(len(resourceNames))]
	h.seconds += int64(h.random.Intn(2)) // Times are in seconds, and many are equal.
	known := h.classes[name]
	switch {
	case h.random.Intn(12) == 0:
		h.restart()
		return "restart"
	case known == nil:
		class := h.create(name, resource)
		h.cache.OnAdd(class, false)
		return fmt.Sprintf("create %s for %q at %d", name, resource, h.seconds)
	case h.random.Intn(3) == 0:
		delete(h.classes, name)
		var obj any = known
		if h.random.Intn(2) == 0 {
			obj = cache.DeletedFinalStateUnknown{Key: name, Obj: known}
		}
		h.cache.OnDelete(obj)
		return "delete " + name
	case h.random.Intn(6) == 0: // The deletion was missed.
		class := h.create(name, resource)
		h.cache.OnUpdate(known, class)
		return fmt.Sprintf("create %s anew for %q at %d", name, resource, h.seconds)
	default:
		class := known.DeepCopy()
		class.Spec.ExtendedResourceName = nil
		if resource != "" {
			class.Spec.ExtendedResourceName = &resource
		}
		h.classes[name] = class
		h.cache.OnUpdate(known, class)
		return fmt.Sprintf("rename %s to %q", name, resource)
	}
}

func (h *history) create(name, resource string) *resourceapi.DeviceClass {
	class := builder.Class(name)
	h.made++
	class.UID = types.UID(fmt.Sprint(h.made))
	class.CreationTimestamp = metav1.NewTime(time.Unix(1000+h.seconds, 0))
	if resource != "" {
		class.Spec.ExtendedResourceName = &resource
	}
	h.classes[name] = class
	return class
}

// asked are all resources for which a class can stand.
func asked() (names []v1.ResourceName) {
	for _, name := range resourceNames[1:] {
		names = append(names, v1.ResourceName(name))
	}
	for _, name := range classNames {
		names = append(names, v1.ResourceName(resourceapi.ResourceDeviceClassPrefix+name))
	}
	return names
}

// rule says plainly which class is right: the name of one, "" for none.
func (h *history) rule(resource v1.ResourceName) string {
	best := ""
	for _, name := range classNames {
		class := h.classes[name]
		switch {
		case class == nil:
		case resource == v1.ResourceName("deviceclass.resource.kubernetes.io/"+name):
			return name
		case class.Spec.ExtendedResourceName == nil || *class.Spec.ExtendedResourceName != string(resource):
		case best == "":
			best = name
		default:
			age, other := class.CreationTimestamp.Unix(), h.classes[best].CreationTimestamp.Unix()
			if age > other || age == other && name < best {
				best = name
			}
		}
	}
	return best
}

func nameOfClass(class *resourceapi.DeviceClass) string {
	if class == nil {
		return ""
	}
	return class.Name
}

// TestNamesAfterAnyHistory: whatever happened to classes, each name stands for the class that the plain rule says, in the
// scheduler's cache as in a list of classes; and when another class comes to stand for it, the scheduling queue is told of
// that class so that pods which wait for the resource are woken.
func TestNamesAfterAnyHistory(t *testing.T) {
	t.Parallel()
	for seed := range int64(2000) {
		h := &history{t: t, random: rand.New(rand.NewSource(seed)), classes: map[string]*resourceapi.DeviceClass{}}
		h.restart()
		for range 30 {
			before := map[v1.ResourceName]string{}
			for _, name := range asked() {
				before[name] = nameOfClass(h.cache.GetDeviceClass(name))
			}
			h.queued = nil
			h.log = append(h.log, h.happens())
			for _, name := range asked() {
				want := h.rule(name)
				require.Equal(t, want, nameOfClass(ClassFor(name, maps.Values(h.classes))), "seed %d: %s in the list after %q", seed, name, h.log)
				require.Equal(t, want, nameOfClass(h.cache.GetDeviceClass(name)), "seed %d: %s in the cache after %q", seed, name, h.log)
				if want != "" && want != before[name] {
					require.True(t, h.wakes(name, want), "seed %d: nobody who asks for %s is woken after %q", seed, name, h.log)
				}
			}
		}
	}
}

// wakes reports whether a pod that asks for the resource was woken for a class.
func (h *history) wakes(resource v1.ResourceName, class string) bool {
	pod := builder.Pod("p")
	pod.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{resource: {}}}}}
	for _, told := range h.queued {
		if told.Name == class && AsksFor(pod, told) {
			return true
		}
	}
	return false
}
