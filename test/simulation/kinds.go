package simulation

import (
	"slices"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// claimKind is a kind of claims, with their requests.
type claimKind struct {
	name     string
	requests func() *builder.ClaimBuilder
}

// claimKinds are the claims that pods ask for.
var claimKinds = []claimKind{
	{"one", func() *builder.ClaimBuilder { return builder.Claim("", builder.Request("r", "gpu")) }},
	{"two", func() *builder.ClaimBuilder { return builder.Claim("", builder.Request("r", "gpu").Count(2)) }},
	{"all", func() *builder.ClaimBuilder { return builder.Claim("", builder.Request("r", "gpu").All()) }},
	{"big", func() *builder.ClaimBuilder { return builder.Claim("", builder.Request("r", "big")) }},
	{"first", func() *builder.ClaimBuilder {
		return builder.Claim("", builder.FirstAvailable("r", builder.Request("a", "big").Count(2), builder.Request("b", "gpu")))
	}},
	{"pair", func() *builder.ClaimBuilder {
		return builder.Claim("", builder.Request("r", "gpu"), builder.Request("s", "gpu")).Match(driver+"/board", "r", "s")
	}},
}

// furtherKinds are the kinds of claims that themes add.
var furtherKinds = map[string][]claimKind{
	shares: {
		{"share", func() *builder.ClaimBuilder { return builder.Claim("", share("r").Capacity("memory", "3Gi")) }},
		{"share-of-any-size", func() *builder.ClaimBuilder { return builder.Claim("", share("r")) }},
		{"shares-of-two", func() *builder.ClaimBuilder {
			return builder.Claim("", share("r").Capacity("memory", "1Gi").Count(2)).Distinct(sharesDriver+"/number", "r")
		}},
		{"shares-of-all", func() *builder.ClaimBuilder { return builder.Claim("", share("r").Capacity("memory", "1Gi").All()) }},
		{"share-or-gpu", func() *builder.ClaimBuilder {
			return builder.Claim("", builder.FirstAvailable("r", share("a").Capacity("memory", "4Gi"), builder.Request("b", "gpu")))
		}},
		{"share-and-gpu", func() *builder.ClaimBuilder {
			return builder.Claim("", share("r").Capacity("memory", "2Gi"), share("s").Capacity("memory", "2Gi").Capacity("streams", "1"), builder.Request("t", "gpu"))
		}},
	},
	partitions: {
		{"part", func() *builder.ClaimBuilder { return builder.Claim("", builder.Request("r", "part")) }},
		{"whole", func() *builder.ClaimBuilder { return builder.Claim("", part("r", "whole")) }},
		{"halves", func() *builder.ClaimBuilder {
			return builder.Claim("", part("r", "half").Count(2)).Match(partsDriver+"/card", "r")
		}},
		{"quarters", func() *builder.ClaimBuilder { return builder.Claim("", part("r", "quarter").Count(3)) }},
		{"large-or-small", func() *builder.ClaimBuilder {
			return builder.Claim("", builder.FirstAvailable("r", part("a", "whole"), part("b", "half"), part("c", "quarter")))
		}},
		{"part-and-share-of-part", func() *builder.ClaimBuilder {
			return builder.Claim("", part("r", "half"), part("s", "shared").Capacity("memory", "3Gi"))
		}},
		{"share-of-part", func() *builder.ClaimBuilder { return builder.Claim("", part("r", "shared")) }},
	},
	cpus: {
		{"cpus", func() *builder.ClaimBuilder { return builder.Claim("", builder.Request("r", "cpus")) }},
		{"more-cpus", func() *builder.ClaimBuilder { return builder.Claim("", builder.Request("r", "cpus").Count(2)) }},
		{"cpus-or-gpu", func() *builder.ClaimBuilder {
			return builder.Claim("", builder.FirstAvailable("r", builder.Request("a", "cpus").Count(3), builder.Request("b", "gpu")))
		}},
		{"cpus-and-gpu", func() *builder.ClaimBuilder {
			return builder.Claim("", builder.Request("r", "cpus"), builder.Request("s", "gpu"))
		}},
	},
	admin: {
		{"admin", func() *builder.ClaimBuilder { return builder.Claim("", builder.Request("r", "gpu").Admin()) }},
		{"admin-of-all", func() *builder.ClaimBuilder { return builder.Claim("", builder.Request("r", "gpu").All().Admin()) }},
		{"admin-and-gpu", func() *builder.ClaimBuilder {
			return builder.Claim("", builder.Request("r", "gpu").Admin(), builder.Request("s", "gpu"))
		}},
		{"admin-of-share", func() *builder.ClaimBuilder { return builder.Claim("", share("r").Admin()) }},
		{"admin-of-whole", func() *builder.ClaimBuilder { return builder.Claim("", part("r", "whole").Admin()) }},
	},
}

func share(request string) *builder.RequestBuilder { return builder.Request(request, "share") }

func part(request, size string) *builder.RequestBuilder {
	return builder.Request(request, "part").Where(`device.attributes["` + partsDriver + `"].size == "` + size + `"`)
}

// claimKind returns the name of a kind that the devices of the history can satisfy.
func (g *generator) claimKind() string {
	if further := g.furtherKinds(); len(further) > 0 && g.one(2) {
		return pick(g, further...).name
	}
	return pick(g, claimKinds...).name
}

// furtherKinds returns the kinds that the themes of the history add.
func (g *generator) furtherKinds() (all []claimKind) {
	for _, theme := range []string{shares, partitions, admin, cpus} {
		if g.has(theme) {
			all = append(all, furtherKinds[theme]...)
		}
	}
	return slices.DeleteFunc(all, func(kind claimKind) bool {
		return kind.name == "admin-of-share" && !g.has(shares) || kind.name == "admin-of-whole" && !g.has(partitions)
	})
}

// createKinds creates the templates for the kinds of a theme.
func (g *generator) createKinds(theme string) {
	g.add(0, func(w *World) {
		for _, kind := range furtherKinds[theme] {
			w.createTemplate(kind.name)
		}
	}, "create templates for %s", theme)
}

func claimOf(kind string) *builder.ClaimBuilder {
	for _, k := range claimKinds {
		if k.name == kind {
			return k.requests().In(namespace)
		}
	}
	for _, kinds := range furtherKinds {
		for _, k := range kinds {
			if k.name == kind {
				return k.requests().In(namespace)
			}
		}
	}
	panic("no kind of claim " + kind)
}
