package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl/facts"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// Choice marks the devices that match a filter.
type Choice struct {
	// Tiles has, by tile name, a 1 for each matching device and a 0 for each other one, in the order of the tile. It
	// omits tiles without matches.
	Tiles map[string]string `json:"tiles"`
	Count int               `json:"count"`
	// Failed counts devices for which an expression could not be evaluated; Example says why for one of them.
	Failed  int    `json:"failed,omitempty"`
	Example string `json:"example,omitempty"`
}

// choose returns the devices that are of a class (class), match an expression (cel), and are on nodes with labels
// (labels).
func (s *server) choose(ctx context.Context, r *http.Request) (any, error) {
	world, err := s.world()
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	set, err := setOf(world, query.Get("class"), query.Get("cel"))
	if err != nil {
		return nil, err
	}
	onNodes, err := labels.Parse(query.Get("labels"))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "labels: "+err.Error())
	}
	choice := &Choice{Tiles: make(map[string]string)}
	finder := newFinder(world, set)
	for _, tile := range sheets(world) {
		if !onNodes.Empty() {
			node := world.Node(tile.name)
			if tile.shared || node == nil || !onNodes.Matches(labels.Set(node.Labels)) {
				continue
			}
		}
		if err := finder.mark(ctx, tile, choice); err != nil {
			return nil, err
		}
	}
	return choice, nil
}

// setOf returns the selectors of a class and an expression. Both may be empty.
func setOf(world *whatif.Snapshot, class, expression string) (selector.Set, error) {
	of := &resourceapi.DeviceClass{}
	if class != "" {
		if of = world.Class(class); of == nil {
			return selector.Set{}, refuse(http.StatusBadRequest, fmt.Sprintf("there is no device class %s", class))
		}
	}
	var own []resourceapi.DeviceSelector
	if expression = strings.TrimSpace(expression); expression != "" {
		own = append(own, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
	}
	return selector.NewSet(of, &resourceapi.ResourceClaim{}, "filter", own), nil
}

// finder evaluates selectors once for each pool.
type finder struct {
	world    *whatif.Snapshot
	set      selector.Set
	selected map[*inventory.NodePool]*selector.Selection
}

func newFinder(world *whatif.Snapshot, set selector.Set) *finder {
	return &finder{world: world, set: set, selected: make(map[*inventory.NodePool]*selector.Selection)}
}

func (f *finder) of(ctx context.Context, pool *inventory.NodePool) (*selector.Selection, error) {
	if known := f.selected[pool]; known != nil {
		return known, nil
	}
	selection, err := f.world.Evaluator().Select(ctx, pool, f.set)
	if err != nil {
		return nil, fmt.Errorf("evaluate the filter: %w", err)
	}
	f.selected[pool] = selection
	return selection, nil
}

// mark adds the matching devices of a tile to a choice.
func (f *finder) mark(ctx context.Context, tile *sheet, choice *Choice) error {
	marks := make([]byte, len(tile.devices))
	any := false
	for at, p := range tile.devices {
		marks[at] = '0'
		if f.set.IsEmpty() {
			marks[at], any = '1', true
			choice.Count++
			continue
		}
		selection, err := f.of(ctx, p.pool)
		if err != nil {
			return err
		}
		if selection.Failed.Has(p.device) {
			if choice.Failed++; choice.Example == "" {
				failure := f.set.Error(p.pool, selection, p.device)
				if errors.Is(failure, selector.ErrCompile) {
					return refuse(http.StatusBadRequest, failure.Error())
				}
				choice.Example = failure.Error()
			}
		} else if selection.Matches.Has(p.device) {
			marks[at], any = '1', true
			choice.Count++
		}
	}
	if any {
		choice.Tiles[tile.name] = string(marks)
	}
	return nil
}

// Values has the values of one attribute.
type Values struct {
	// Values lists the distinct values. Tiles has the index of each device's value, -1 for none, and omits tiles
	// without values.
	Values []string         `json:"values"`
	Tiles  map[string][]int `json:"tiles"`
}

// attribute returns the values of an attribute (name).
func (s *server) attribute(_ context.Context, r *http.Request) (any, error) {
	world, err := s.world()
	if err != nil {
		return nil, err
	}
	name := r.URL.Query().Get("name")
	if name == "" {
		return nil, refuse(http.StatusBadRequest, "name must be the name of an attribute")
	}
	values := &Values{Values: []string{}, Tiles: make(map[string][]int)}
	numbers := make(map[string]int)
	for _, tile := range sheets(world) {
		has := make([]int, len(tile.devices))
		found := false
		for at, p := range tile.devices {
			has[at] = -1
			text, ok := valueOf(&p.pool.Devices[p.device], p.pool.ID.Driver, name)
			if !ok {
				continue
			}
			number, known := numbers[text]
			if !known {
				number = len(values.Values)
				numbers[text] = number
				values.Values = append(values.Values, text)
			}
			has[at], found = number, true
		}
		if found {
			values.Tiles[tile.name] = has
		}
	}
	return values, nil
}

// valueOf returns the value of a device's attribute, by its qualified name, as text.
func valueOf(device *inventory.Device, driver, name string) (string, bool) {
	attribute, ok := device.Attributes[resourceapi.QualifiedName(name)]
	if !ok {
		if rest, own := strings.CutPrefix(name, driver+"/"); own {
			attribute, ok = device.Attributes[resourceapi.QualifiedName(rest)]
		}
	}
	if !ok {
		return "", false
	}
	return facts.AttributeText(attribute, ", "), true
}
