package domain

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"

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
func columnOf(attribute string, pool *inventory.NodePool) *column {
	known := inventory.Cached(&pool.Content.Others, columnsKey{}, func() *columns { return new(columns) })
	var recent []*column
	if list := known.recent.Load(); list != nil {
		recent = *list
	}
	for _, c := range recent {
		if c.attribute == attribute {
			return c
		}
	}
	c := newColumn(attribute, pool)
	list := append([]*column{c}, recent[:min(len(recent), rememberedColumns-1)]...)
	known.recent.Store(&list) // If somebody else stores at the same time, one of both is derived again.
	return c
}

func newColumn(attribute string, pool *inventory.NodePool) *column {
	c := &column{attribute: attribute, published: bitset.New(len(pool.Devices))}
	having := make(map[string]bitset.Set)
	for i := range pool.Devices {
		for _, name := range namesOf(lookUp(attribute, &pool.Devices[i])) {
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

// lookUp returns an attribute of a device, nil if the device does not have it. As for matchAttribute,
// the driver may have published it without the domain if that is its own name.
func lookUp(attribute string, device *inventory.Device) *resourceapi.DeviceAttribute {
	if found, ok := device.Attributes[resourceapi.QualifiedName(attribute)]; ok {
		return &found
	}
	domain, id, _ := strings.Cut(attribute, "/")
	if domain == device.Slice.Spec.Driver {
		if found, ok := device.Attributes[resourceapi.QualifiedName(id)]; ok {
			return &found
		}
	}
	return nil
}

// namesOf returns the domains that a device with an attribute is in: one, or one for each value of a
// list (DRAListTypeAttributes). There are none if the type is not known.
func namesOf(a *resourceapi.DeviceAttribute) (names []string) {
	if a == nil {
		return nil
	}
	for _, v := range a.IntValues {
		names = append(names, strconv.FormatInt(v, 10))
	}
	for _, v := range a.BoolValues {
		names = append(names, strconv.FormatBool(v))
	}
	for _, v := range a.StringValues {
		names = append(names, nameOfText(v))
	}
	names = append(names, a.VersionValues...)
	switch {
	case len(names) > 0:
	case a.StringValue != nil:
		names = []string{nameOfText(*a.StringValue)}
	case a.IntValue != nil:
		names = []string{strconv.FormatInt(*a.IntValue, 10)}
	case a.BoolValue != nil:
		names = []string{strconv.FormatBool(*a.BoolValue)}
	case a.VersionValue != nil:
		names = []string{*a.VersionValue}
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
