package simulation

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

var classNames = []string{"gpu", "big"}

// resourceNames are the extended resources that pods may ask for. The last one is the implicit name of a class.
var resourceNames = []string{"example.com/gpu", "example.com/card", resourceapi.ResourceDeviceClassPrefix + "gpu"}

// furtherClasses are the classes of themes, with their drivers.
var furtherClasses = map[string]string{"share": sharesDriver, "part": partsDriver, "cpus": cpusDriver}

func classOf(name string) *resourceapi.DeviceClass { return builder.Class(name, selectorOf(name)) }

// selectorOf returns the expression of a class at the beginning.
func selectorOf(name string) string {
	if other := furtherClasses[name]; other != "" {
		return builder.OfDriver(other)
	}
	expression := builder.OfDriver(driver)
	if name == "big" {
		expression += fmt.Sprintf(` && device.attributes[%q].size == "big"`, driver)
	}
	return expression
}

func (w *World) createClass(name string) {
	ignore(w.client.ResourceV1().DeviceClasses().Create(w.ctx, classOf(name), metav1.CreateOptions{}))
}

func (w *World) deleteClass(name string) {
	_ = w.client.ResourceV1().DeviceClasses().Delete(w.ctx, name, metav1.DeleteOptions{})
}

// nameClass sets the extended resource by which pods may ask for the class; none if it is empty.
func (w *World) nameClass(name, extended string) {
	class, err := w.client.ResourceV1().DeviceClasses().Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		return
	}
	class.Spec.ExtendedResourceName = &extended
	if extended == "" {
		class.Spec.ExtendedResourceName = nil
	}
	ignore(w.client.ResourceV1().DeviceClasses().Update(w.ctx, class, metav1.UpdateOptions{}))
}

// offer makes a device plugin of a node offer an extended resource. Pods get that without DRA devices.
func (w *World) offer(node, extended, amount string) {
	offering, err := w.client.CoreV1().Nodes().Get(w.ctx, node, metav1.GetOptions{})
	if err != nil {
		return
	}
	offering.Status.Allocatable[v1.ResourceName(extended)] = resource.MustParse(amount)
	offering.Status.Capacity = offering.Status.Allocatable
	ignore(w.client.CoreV1().Nodes().UpdateStatus(w.ctx, offering, metav1.UpdateOptions{}))
}

// selectors is the theme of histories in which the selectors of classes change.
const selectors = "selectors"

// selectClass makes the class select other devices.
func (w *World) selectClass(name, expression string) {
	class, err := w.client.ResourceV1().DeviceClasses().Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		return
	}
	class.Spec.Selectors = builder.Class(name, expression).Spec.Selectors
	ignore(w.client.ResourceV1().DeviceClasses().Update(w.ctx, class, metav1.UpdateOptions{}))
}

// changeSelector makes a class select fewer devices, the devices of all drivers, none, or devices that cannot be determined: its
// expression fails for all devices, or for devices that lack an attribute. Mostly the class is repaired after a while. Or the
// class is deleted and returns with another expression.
func changeSelector(g *generator) {
	class := pick(g, g.classes()...)
	expression := pick(g, selectorsOf(class)...)
	if g.one(4) {
		g.add(g.soon(), func(w *World) { w.deleteClass(class) }, "delete class %s", class)
		g.later(g.soon(), func(w *World) {
			w.createClass(class)
			w.selectClass(class, expression)
		}, "create class %s, which selects %s", class, expression)
	} else {
		g.add(g.soon(), func(w *World) { w.selectClass(class, expression) }, "class %s selects %s", class, expression)
	}
	if !g.one(5) {
		g.later(g.soon(), func(w *World) { w.selectClass(class, selectorOf(class)) }, "class %s selects what it did at the beginning", class)
	}
}

// selectorsOf returns other expressions for a class than the one at the beginning.
func selectorsOf(class string) []string {
	return []string{
		selectorOf(class) + ` && device.attributes[device.driver].?size.orValue("") == "small"`,
		`device.driver == "nobody.example.com"`,
		`device.driver.endsWith(".example.com")`,
		selectorOf(class) + ` && device.attributes[device.driver].nothing == "x"`,
		`device.attributes[device.driver].size != "small"`,
	}
}

// classes returns the classes of the history.
func (g *generator) classes() []string {
	all := classNames
	if g.has(shares) {
		all = append(all[:len(all):len(all)], "share")
	}
	if g.has(partitions) {
		all = append(all[:len(all):len(all)], "part")
	}
	return all
}

// namesOf returns the names of the objects of a collection.
func (w *World) namesOf(collection string) (all []string) {
	s := w.server.store
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, o := range s.collections[collection].sorted() {
		all = append(all, o.text("name"))
	}
	return all
}

func setupExtended(g *generator) {
	g.add(0, func(w *World) { w.nameClass("gpu", resourceNames[0]) }, "class gpu stands for %s", resourceNames[0])
	if g.one(2) {
		other := pick(g, resourceNames[:2]...)
		g.add(g.soon(), func(w *World) { w.nameClass("big", other) }, "class big stands for %s", other)
	}
}

func changeExtended(g *generator) {
	if g.one(5) {
		node, name, amount := g.anyNode(), pick(g, resourceNames[:2]...), pick(g, "0", "1", "2")
		g.add(g.soon(), func(w *World) { w.offer(node, name, amount) }, "a device plugin of %s offers %s of %s", node, amount, name)
		return
	}
	if g.one(3) {
		g.migrate()
		return
	}
	class, name := pick(g, classNames...), pick(g, resourceNames[0], resourceNames[1], "")
	g.add(g.soon(), func(w *World) { w.nameClass(class, name) }, "class %s stands for %q", class, name)
}

// migrate makes all classes stand for one resource, until one of them is deleted or gets another name. Then a pod that asks for
// that resource is created.
func (g *generator) migrate() {
	name, leaves, p := pick(g, resourceNames[:2]...), pick(g, classNames...), g.newPod()
	for _, class := range classNames {
		g.add(g.soon(), func(w *World) { w.nameClass(class, name) }, "class %s stands for %s", class, name)
	}
	if g.one(2) {
		g.add(g.soon(), func(w *World) { w.deleteClass(leaves) }, "delete class %s", leaves)
		g.later(time.Minute, func(w *World) { w.createClass(leaves) }, "create class %s", leaves)
	} else {
		g.add(g.soon(), func(w *World) { w.nameClass(leaves, "") }, "class %s stands for nothing", leaves)
	}
	p.with(builder.Extended(v1.ResourceName(name), "1"), "1 of %s", name)
	g.add(g.soon(), p.create, "create pod %s", p)
}

// asks makes the pod ask for devices by an extended resource: in one container, in two containers, or also in an init container.
func (g *generator) asks(p *podPlan) {
	name, amount := pick(g, resourceNames[0], resourceNames[0], resourceNames[1], resourceNames[2]), pick(g, "1", "1", "2")
	p.with(builder.Extended(v1.ResourceName(name), amount), "%s of %s", amount, name)
	asking := func(containers []v1.Container) {
		list := builder.Resources("cpu", "100m", name, "1")
		containers[len(containers)-1].Resources = v1.ResourceRequirements{Requests: list, Limits: builder.Resources(name, "1")}
	}
	switch g.random.IntN(5) {
	case 0:
		p.with(func(pod *v1.Pod) {
			builder.Container("d")(pod)
			asking(pod.Spec.Containers)
		}, "1 more in another container")
	case 1:
		p.with(func(pod *v1.Pod) {
			builder.InitContainer("i")(pod)
			asking(pod.Spec.InitContainers)
		}, "1 in an init container")
	}
}
