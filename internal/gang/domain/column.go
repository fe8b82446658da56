package domain

import (
	"regexp"
	"slices"
	"strconv"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/attribute"
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// column has, for an attribute, the domains that the devices of a pool are in. It is immutable.
type column struct {
	attribute string
	// names are the domains, sorted, each once.
	names []string
	// having are, by index into names, the devices in that domain.
	having []bitset.Set
	// published are the devices that are in any domain.
	published bitset.Set
}

// of returns the devices in a domain, nil if there are none.
func (c *column) of(name string) bitset.Set {
	if i, found := slices.BinarySearch(c.names, name); found {
		return c.having[i]
	}
	return nil
}

// rememberedColumns is how many attributes are remembered for devices that look alike. The names come
// from annotations, so that without a bound users could fill the memory with made-up ones.
const rememberedColumns = 4

// columns are those that were asked for lately, the newest first.
type columns struct {
	recent atomic.Pointer[[]*column]
}

// columnsKey is where columns are kept with what devices look like.
type columnsKey struct{}

// columnOf returns the column of an attribute for the devices of a pool, reachable or not.
func columnOf(name string, pool *inventory.NodePool) *column {
	known := inventory.Cached(&pool.Content.Others, columnsKey{}, func() *columns { return new(columns) })
	var recent []*column
	if list := known.recent.Load(); list != nil {
		recent = *list
	}
	for _, c := range recent {
		if c.attribute == name {
			return c
		}
	}
	c := newColumn(name, pool)
	list := append([]*column{c}, recent[:min(len(recent), rememberedColumns-1)]...)
	known.recent.Store(&list) // If somebody else stores at the same time, one of both is derived again.
	return c
}

func newColumn(name string, pool *inventory.NodePool) *column {
	c := &column{attribute: name, published: bitset.New(len(pool.Devices))}
	of := attribute.NewName(resourceapi.FullyQualifiedName(name))
	having := make(map[string]bitset.Set)
	for i := range pool.Devices {
		for _, name := range namesOf(&of, &pool.Devices[i]) {
			set, found := having[name]
			if !found {
				set = bitset.New(len(pool.Devices))
				having[name] = set
				c.names = append(c.names, name)
			}
			set.Add(i)
			c.published.Add(i)
		}
	}
	slices.Sort(c.names)
	for _, name := range c.names {
		c.having = append(c.having, having[name])
	}
	return c
}

// namesOf returns the domains that a device is in by an attribute: one, or one for each value of a list
// (DRAListTypeAttributes). There are none if it does not have the attribute, or if the type is not known.
func namesOf(name *attribute.Name, device *inventory.Device) (names []string) {
	found := name.Lookup(device)
	if found == nil {
		return nil
	}
	for _, value := range attribute.Values(found, true) {
		if value.IsText() {
			names = append(names, nameOfText(value.String()))
		} else {
			names = append(names, value.String())
		}
	}
	return names
}

// otherType matches texts that an int, a bool or a semantic version has as well, and those in quotes.
var otherType = regexp.MustCompile(`^(-?[0-9]+|true|false|[0-9]+\.[0-9]+\.[0-9]+([-+].*)?|".*)$`)

// nameOfText is the name of the domain of a string. Values of different types are different domains,
// because matchAttribute does not take them for the same: a string that reads like a value of another
// type is put in quotes.
func nameOfText(text string) string {
	if otherType.MatchString(text) {
		return strconv.Quote(text)
	}
	return text
}
