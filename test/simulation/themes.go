package simulation

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// theme is a kind of event that happens in some histories. A history with few themes has much of each.
type theme struct {
	name string
	// chance is the share of histories that have the theme, weight its frequency in these.
	chance float64
	weight int
	// setup adds the objects that the theme needs from the beginning.
	setup func(*generator)
	next  func(*generator)
}

// themes lists all themes. The themes of a history follow from its seed, so a new theme has to come last.
var themes []theme

func init() {
	themes = []theme{
		{"nodes", 1, 3, setupNodes, restartNode},
		{"pods", 1, 40, setupClasses, (*generator).pod},
		{"deletions", 0.9, 15, nil, deletePod},
		{"ends", 0.9, 10, nil, endPod},
		{"claims", 0.8, 8, nil, changeClaim},
		{"publishing", 0.8, 6, nil, func(g *generator) { g.publish(g.anyNode(), g.soon()) }},
		{"taints", 0.6, 5, nil, (*generator).taint},
		{"cordons", 0.5, 4, nil, cordonNode},
		{"classes", 0.5, 3, nil, changeClass},
		{"crashes", 0.6, 4, nil, (*generator).crash},
		{"storms", 0.6, 3, nil, (*generator).storm},
		{"pauses", 0.6, 3, nil, pauseReplica},
		{"calm", 0.7, 2, nil, func(g *generator) {
			g.add(time.Duration(20+g.random.IntN(100))*time.Second, func(*World) {}, "nothing")
		}},
		{"extended resources", 0.4, 4, setupExtended, changeExtended},
		{podGroups, 0.3, 8, nil, changeGang(podGroups)},
		{foreign, 0.3, 0, nil, nil},
		{others, 0.3, 0, nil, nil},
		{labeledGroups, 0.3, 8, nil, changeGang(labeledGroups)},
		{"moments", 0.7, 8, nil, (*generator).moment},
		{"stops", 0.5, 3, nil, stopReplica},
		{sharing, 0.4, 0, nil, nil},
		{places, 0.4, 3, setupPlaces, changePlace},
		{volumes, 0.4, 2, setupVolumes, deleteVolume},
		{guarded, 0.3, 2, nil, disturbGuard},
		{conditions, 0.3, 4, setupConditions, changeAttaching},
		{clocks, 0.3, 3, setupClocks, changeClock},
		{withoutDevices, 0.3, 6, nil, (*generator).plainPod},
		{holds, 0.3, 0, nil, nil},
		{"departures", 0.5, 0, setupDepartures, nil},
	}
	themes = append(themes, laterThemes...)
}

func setupNodes(g *generator) {
	for i := range g.history.nodes {
		node := fmt.Sprintf("node-%d", i)
		g.add(0, func(w *World) { w.createNode(node) }, "create node %s", node)
		g.publish(node, 0)
	}
}

func setupClasses(g *generator) {
	for _, class := range classNames {
		g.add(0, func(w *World) { w.createClass(class) }, "create class %s", class)
	}
	for _, kind := range claimKinds {
		g.add(0, func(w *World) { w.createTemplate(kind.name) }, "create template %s", kind.name)
	}
}

// departure is the delay, after all other steps, until most pods on nodes end. Waiting pods then find free devices.
const departure = 20 * time.Minute

func setupDepartures(g *generator) {
	if g.has(holds) {
		return // A pod that gets held devices frees nothing, so other pods still report that these are held.
	}
	every := 1 + g.random.IntN(2)
	g.later(departure, func(w *World) {
		pods, err := w.client.CoreV1().Pods(namespace).List(w.ctx, metav1.ListOptions{})
		if err != nil {
			return
		}
		for i := range pods.Items {
			if i%every == 0 {
				w.finishPod(pods.Items[i].Name)
			}
		}
	}, "of all pods on nodes, one of %d ends", every)
}

func restartNode(g *generator) {
	node := g.anyNode()
	g.add(g.soon(), func(w *World) { w.deleteNode(node) }, "delete node %s", node)
	g.later(g.soon(), func(w *World) { w.createNode(node) }, "create node %s", node)
}

func deletePod(g *generator) {
	name := g.anyPod()
	g.add(g.soon(), func(w *World) { w.deletePod(name) }, "delete pod %s", name)
}

func endPod(g *generator) {
	name := g.anyPod()
	g.add(g.soon(), func(w *World) { w.finishPod(name) }, "pod %s succeeds", name)
}

// changeClaim deletes a claim that pods may use, or creates it again, perhaps with another kind.
func changeClaim(g *generator) {
	name, kind := g.anyClaim(), g.claimKind()
	if g.one(2) {
		g.add(g.soon(), func(w *World) { w.deleteClaim(name) }, "delete claim %s", name)
		return
	}
	g.add(g.soon(), func(w *World) { w.createClaim(name, kind) }, "create claim %s again, kind %s", name, kind)
}

func cordonNode(g *generator) {
	node, on := g.anyNode(), g.one(2)
	g.add(g.soon(), func(w *World) { w.cordon(node, on) }, "cordon %s: %t", node, on)
}

func changeClass(g *generator) {
	class := pick(g, classNames...)
	g.add(g.soon(), func(w *World) { w.deleteClass(class) }, "delete class %s", class)
	g.later(g.soon(), func(w *World) { w.createClass(class) }, "create class %s", class)
}

func (g *generator) taint() {
	name, node, device := fmt.Sprintf("rule-%d", g.rules), g.anyNode(), fmt.Sprintf("dev-%d", g.random.IntN(4))
	g.rules++
	effect := pick(g, "NoSchedule", "NoExecute")
	g.add(g.soon(), func(w *World) { w.createRule(name, node, device, effect) }, "taint device %s of %s with %s by %s", device, node, effect, name)
	g.later(g.soon(), func(w *World) { w.deleteRule(name) }, "delete %s", name)
}

func pauseReplica(g *generator) {
	replica, d := g.random.IntN(g.history.replicas), time.Duration(g.random.IntN(40))*time.Second
	g.add(g.soon(), func(w *World) { w.pauseReplica(replica, d) }, "replica %d is cut off for %s", replica, d)
}

// slowControllers makes kube-controller-manager learn late of what happens: the claims of pods that are gone keep their devices.
func slowControllers(g *generator) {
	resource, d := pick(g, "pods", "resourceclaims"), time.Duration(g.random.IntN(40))*time.Second
	g.add(g.soon(), func(w *World) { w.controllers.stall(resource, d) }, "for %s, kube-controller-manager sees no changes of %s", d, resource)
}

// missChanges makes a replica see no changes of a resource for a while, and list everything again then: it sees at most the first and the
// last state of what changed more than once, and nothing of what came and went.
func missChanges(g *generator) {
	if g.one(2) {
		g.missEnd()
		return
	}
	replica, resource := g.random.IntN(g.history.replicas), pick(g, "pods", "pods", "resourceclaims", "resourceclaims", "resourceslices", "nodes", "deviceclasses", "podgroups")
	d := time.Duration(1+g.random.IntN(20)) * time.Second
	g.add(g.soon(), func(w *World) {
		if replica < len(w.replicas) {
			w.missChanges(w.replicas[replica].connection, resource, d)
		}
	}, "for %s, replica %d sees no changes of %s, and lists all of them then", d, replica, resource)
}

func (g *generator) storm() {
	w := Weather{Latency: time.Duration(g.random.IntN(3000)) * time.Millisecond, Lag: time.Duration(g.random.IntN(8000)) * time.Millisecond}
	if g.one(2) {
		w.Refused = g.random.Float64() * 0.3
	}
	if g.one(2) {
		w.Lost = g.random.Float64() * 0.3
	}
	if g.one(2) {
		w.Cut = g.random.Float64() * 0.1
	}
	lasts := time.Duration(1+g.random.IntN(60)) * time.Second
	g.add(g.soon(), func(world *World) { world.storm(w, lasts) }, "for %s: latency to %s, lag to %s, %.0f%% refused, %.0f%% answers lost, %.0f%% watches cut", lasts, w.Latency, w.Lag, 100*w.Refused, 100*w.Lost, 100*w.Cut)
}
