package simulation

import (
	"testing"
	"time"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestVictimsLeaveRoom: a pod, a gang and a PodGroup of Kubernetes have the last pods of lower priority evicted, and get what these leave,
// although a pod of the same priority comes meanwhile. Their victims would have been evicted for nothing otherwise.
func TestVictimsLeaveRoom(t *testing.T) {
	for name, come := range map[string]struct {
		pods func(*script) *script
		runs []string
	}{
		"pod":                    {func(s *script) *script { return s.pod(10*time.Second, "large", 2, "1", 100) }, []string{"large"}},
		"gang":                   {func(s *script) *script { return s.gang(10*time.Second, "large", 2, 100) }, []string{"large-0", "large-1"}},
		"PodGroup of Kubernetes": {func(s *script) *script { return s.podGroup(10*time.Second, "large", 2, 100) }, []string{"large-0", "large-1"}},
	} {
		for world, story := range map[string]*script{
			"": come.pods(new(script).victims(podTerm)).other(500 * time.Millisecond),
			// The claims of the victims keep their devices.
			"slow controllers": come.pods(new(script).victims(podTerm)).slow(time.Second, 15*time.Second).other(500 * time.Millisecond).tried(5 * time.Second),
			// They have been nominated for half a minute when the last victim ends, and learn late that its claim is deallocated.
			"slow end": come.pods(new(script).victims(28*time.Second)).other(500*time.Millisecond).
				add(27*time.Second, "for 6s, the scheduler sees no changes of claims", func(w *World) { w.replicas[0].connection.stall("resourceclaims", 6*time.Second) }),
			// Nothing in memory says what is kept.
			"the process ends": come.pods(new(script).victims(40 * time.Second)).crash(time.Second).other(5 * time.Second),
		} {
			story.add(time.Minute, "nothing", func(*World) {})
			for _, pod := range come.runs {
				story.runs(0, pod)
			}
			t.Run(name+"/"+world, story.passes)
		}
	}
}

// TestVictimsLeaveRoomForOthers: a gang and a PodGroup of Kubernetes that have pods evicted and lack a pod then keep nothing from others.
func TestVictimsLeaveRoomForOthers(t *testing.T) {
	for name, come := range map[string]func(*script) *script{
		"gang":                   func(s *script) *script { return s.gang(10*time.Second, "large", 2, 100) },
		"PodGroup of Kubernetes": func(s *script) *script { return s.podGroup(10*time.Second, "large", 2, 100) },
	} {
		for deleted, happens := range map[string]func(*World){
			"pod": func(w *World) { w.deletePod("large-1") },
			"pod and the group": func(w *World) {
				w.deletePod("large-1")
				w.deleteGroup("large")
			},
		} {
			story := come(new(script).victims(podTerm)).add(time.Second, "delete a "+deleted, happens).other(time.Second).runs(2*time.Minute, "other")
			t.Run(name+"/"+deleted, story.passes)
		}
	}
}

// TestVictimsLeaveNoRoom: the devices of the node are withdrawn while the victims end, all or one. Nothing woke a pod until the flush of the queue.
// Others are evicted elsewhere.
func TestVictimsLeaveNoRoom(t *testing.T) {
	for name, come := range map[string]struct {
		pods func(*script) *script
		runs []string
	}{
		"pod":                    {func(s *script) *script { return s.pod(time.Minute, "large", 2, "1", 100) }, []string{"large"}},
		"gang":                   {func(s *script) *script { return s.gang(time.Minute, "large", 2, 100) }, []string{"large-0", "large-1"}},
		"PodGroup of Kubernetes": {func(s *script) *script { return s.podGroup(time.Minute, "large", 2, 100) }, []string{"large-0", "large-1"}},
	} {
		for victims, low := range map[string]func(*script) *script{
			"with claims":    func(s *script) *script { return s.pod(20*time.Second, "low-0", 1, "1", 0).pod(0, "low-1", 1, "1", 0) },
			"with templates": func(s *script) *script { return s.templated(20*time.Second, "low-0").templated(0, "low-1") },
		} {
			for devices, withdraw := range map[string]func(*World){
				"all": func(w *World) { w.withdraw("node-0", 5*time.Minute) },
				"one": func(w *World) {
					w.putSlice(builder.Slice("node-0").OfDriver(driver).InPool("node-0", 2, 1).OnNode("node-0").Devices(builder.Device("dev-1").Attr("size", "big")).Obj())
				},
			} {
				story := low(new(script).node(2)).more(5*time.Second).pod(5*time.Second, "mid-0", 1, "1", 50).pod(0, "mid-1", 1, "1", 50)
				come.pods(story).add(time.Second, "withdraw devices of node-0: "+devices, withdraw).add(time.Minute, "nothing", func(*World) {})
				for _, pod := range come.runs {
					story.runs(0, pod)
				}
				t.Run(name+"/"+victims+"/"+devices, story.passes)
			}
		}
	}
}

// templated has a pod of low priority run with a claim for one device that is made for it.
func (s *script) templated(after time.Duration, name string) *script {
	return s.add(after, "pod "+name+" with 1 device by a template", func(w *World) {
		w.createTemplate("one")
		w.createPod(name, 0, builder.Container("c", "cpu", "1"), builder.Using(builder.FromTemplate("one")...))
	})
}

// victims has two pods of low priority run with the devices of a node, one of which takes some time to end. It waits for the end of the pause
// that follows the process's start.
func (s *script) victims(term time.Duration) *script {
	return s.node(2).pod(70*time.Second, "low-0", 1, "1", 0).add(0, "pod low-1 with 1 device which ends after "+term.String(), func(w *World) {
		w.createPodWithClaim("low-1", builder.Request("r", "gpu"), "1", 0, endsSlowly(term))
	})
}

// other has a pod come that wants a device, of the priority of those that have pods evicted.
func (s *script) other(after time.Duration) *script { return s.pod(after, "other", 1, "1", 100) }

// slow has kube-controller-manager see no changes of pods for a while.
func (s *script) slow(after, d time.Duration) *script {
	return s.add(after, "for "+d.String()+", kube-controller-manager sees no changes of pods", func(w *World) { w.controllers.stall("pods", d) })
}

// tried has a node come and go, so that waiting pods are tried.
func (s *script) tried(after time.Duration) *script {
	return s.add(after, "a node without devices comes", func(w *World) { w.createNode("node-9") }).
		add(time.Second, "it goes", func(w *World) { w.deleteNode("node-9") })
}
