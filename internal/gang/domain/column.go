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

// A column holds the domains of a pool's devices by one attribute. It is immutable.
type column struct {
	attribute string
	// names are the distinct domains, sorted.
	names []string
	// having holds the devices in each domain, in the order of names.
	having []bitset.Set
	// published holds the devices that are in any domain.
	published bitset.Set
}

// of returns the devices in a domain, nil if there are none.
func (c *column) of(name string) bitset.Set {
	if i, found := slices.BinarySearch(c.names, name); found {
		return c.having[i]
	}
	return nil
}

// rememberedColumns limits the attributes cached per pool content. The attributes come from
// annotations: without a limit users could fill the memory.
const rememberedColumns = 4

// columns holds the columns used lately, the newest first.
type columns struct {
	recent atomic.Pointer[[]*column]
}

// columnsKey is the key of columns in the pool content's cache.
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
	known.recent.Store(&list) // If two calls store at the same time, one column is derived again later.
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

// namesOf returns the domains of a device by an attribute: one, or one for each value of a list
// (DRAListTypeAttributes). There are none if the device lacks the attribute, or if the type of its value is unknown.
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

// otherType matches texts that look like an int, a bool or a semantic version, and quoted texts.
var otherType = regexp.MustCompile(`^(-?[0-9]+|true|false|[0-9]+\.[0-9]+\.[0-9]+([-+].*)?|".*)$`)

// nameOfText returns the domain name of a string value. Values of different types are different domains, as
// matchAttribute treats them as different. So a string that looks like a value of another type is quoted.
func nameOfText(text string) string {
	if otherType.MatchString(text) {
		return strconv.Quote(text)
	}
	return text
}
