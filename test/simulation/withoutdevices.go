package simulation

// withoutDevices is the theme of histories with pods without devices that the plugin places as well.
const withoutDevices = "pods without devices"

// plainPod adds a pod that needs no devices.
func (g *generator) plainPod() {
	p := g.newPod()
	if g.has(places) && g.one(2) {
		g.places(p)
	}
	g.add(g.soon(), p.create, "create pod %s", p)
}
