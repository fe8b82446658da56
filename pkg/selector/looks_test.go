package selector_test

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// lookExpressions read devices in all kinds of ways. The number is the maximum number of evaluations for 10
// devices that differ only in data that is not read; 10 means all.
var lookExpressions = map[string]int{
	`true`:                               1,
	`device.driver == "gpu.example.com"`: 1,
	`device.attributes["gpu.example.com"].model == "a"`:                                               1,
	`device.attributes["gpu.example.com"]["model"] == "a"`:                                            1,
	`device.attributes[device.driver].model == "a"`:                                                   1,
	`device.attributes[device.driver]["model"] == "a" || has(device.attributes[device.driver].flag)`:  1,
	`device.capacity[device.driver].memory.compareTo(quantity("2Gi")) >= 0`:                           1,
	`device.attributes[""].model == "a"`:                                                              10,
	`[device].exists(d, d.attributes[device.driver].model == "a")`:                                    10,
	`device.attributes["other.example.com"].model == "a"`:                                             1,
	`has(device.attributes["gpu.example.com"].model) && device.allowMultipleAllocations`:              1,
	`!has(device.attributes["gpu.example.com"].model)`:                                                1,
	`device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.0.0"))`:                     1,
	`["a", "b"].exists(m, m == device.attributes["gpu.example.com"].model)`:                           1,
	`["a", "b"].exists(device, device == "a")`:                                                        10,
	`{"a": 1}[device.attributes["gpu.example.com"].model] == 1`:                                       1,
	`device.capacity["gpu.example.com"].memory.compareTo(quantity("2Gi")) >= 0`:                       1,
	`cel.bind(dra, device.attributes["gpu.example.com"], has(dra.model) && dra.model == "a")`:         10,
	`device.attributes["gpu.example.com"].all(name, name != "flag")`:                                  10,
	`device.attributes["gpu.example.com"][device.driver == "gpu.example.com" ? "model" : ""] == "a"`:  10,
	`"gpu.example.com" in device.attributes`:                                                          10,
	`device.attributes["gpu.example.com"].flag`:                                                       1,
	`device.attributes["gpu.example.com"].model != "a" || device.attributes["gpu.example.com"].flag`:  1,
	`device.attributes["gpu.example.com"].list.includes("a") || true`:                                 10,
	`size(device.attributes["gpu.example.com"]) > 3 || device.attributes["gpu.example.com"].index==1`: 10,
}

func newLookingEvaluator() *selector.Evaluator {
	e := selector.NewEvaluator(cel.NewCache(100, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true}))
	e.RememberLooks(selector.NewLooks(selector.DefaultLooks))
	return e
}

// TestDevicesThatLookTheSame: an expression is evaluated once for devices that have the same values where it
// reads, if their other values are valid.
func TestDevicesThatLookTheSame(t *testing.T) {
	t.Parallel()
	for expression, most := range lookExpressions {
		evaluator := newLookingEvaluator()
		for i := range 10 {
			device := b.NodeSlice("n", b.Device("d").Attr("model", "a").Attr("flag", true).Attr("index", i)).Obj().Spec.Devices[0]
			device.Attributes["version"] = resourceapi.DeviceAttribute{VersionValue: ptr.To("1.2.3")}
			device.Attributes["list"] = resourceapi.DeviceAttribute{StringValues: []string{"a"}}
			device.Attributes["uuid"] = resourceapi.DeviceAttribute{StringValue: ptr.To(fmt.Sprint(i))}
			device.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("1Gi")}}
			_, _ = evaluator.Gradually(poolOfDevice("gpu.example.com", device), setOf(b.Class("c"), expression)).Matches(t.Context(), 0)
		}
		require.EqualValues(t, most, evaluator.Evaluations(), expression)
	}
}

// TestLooksTellTheTruth compares the remembered verdicts and errors of devices that look the same with those
// of an evaluator that remembers nothing, for single devices and for whole pools.
func TestLooksTellTheTruth(t *testing.T) {
	t.Parallel()
	random, evaluator, remembersNothing := rand.New(rand.NewSource(1)), newLookingEvaluator(), selector.NewEvaluator(truths)
	devices := 0
	pools := 500
	if testing.Short() {
		pools = 125
	}
	for range pools {
		driver, device := [2]string{"gpu.example.com", "other.example.com"}[random.Intn(2)], randomLook(random)
		pool := poolOfDevice(driver, device)
		for expression := range lookExpressions {
			devices++
			set := setOf(b.Class("c"), expression)
			truth, failure := remembersNothing.Gradually(poolOfDevice(driver, device), set).Matches(t.Context(), 0)
			var matches bool
			var err error
			if random.Intn(2) == 0 {
				matches, err = evaluator.Gradually(pool, set).Matches(t.Context(), 0)
			} else {
				matches, err = selected(t, evaluator, pool, set)
			}
			require.Equal(t, truth, matches, "%s on %v", expression, device)
			require.Equal(t, failure == nil, err == nil, "%s on %v: %v, %v", expression, device, failure, err)
			if failure != nil && !strings.Contains(failure.Error(), "error: attribute ") { // Of several bad values, CEL names any.
				require.EqualError(t, err, failure.Error(), "%s on %v", expression, device)
			}
		}
	}
	require.Less(t, evaluator.Evaluations(), uint64(devices*3/4))
}

var truths = cel.NewCache(100, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})

// selected returns the verdict about the first device of a pool, after all its devices were judged.
func selected(t *testing.T, evaluator *selector.Evaluator, pool *inventory.NodePool, set selector.Set) (bool, error) {
	selection, err := evaluator.Select(t.Context(), pool, set)
	require.NoError(t, err)
	if selection.Failed.Has(0) {
		return false, set.Error(pool, selection, 0)
	}
	return selection.Matches.Has(0), nil
}

// TestSerialNumbersAreNotRemembered: no verdicts are kept of expressions that read unique values, but
// verdicts are kept of expressions that read attributes with many values.
func TestSerialNumbersAreNotRemembered(t *testing.T) {
	t.Parallel()
	looks := selector.NewLooks(1 << 30)
	evaluator := selector.NewEvaluator(cel.NewCache(100, cel.Features{}))
	evaluator.RememberLooks(looks)
	serial, index := setOf(b.Class("c"), `device.attributes["gpu.example.com"].serial == 7`), setOf(b.Class("c"), `device.attributes["gpu.example.com"].index == 7`)
	for i := range 1000 {
		device := b.NodeSlice("n", b.Device("d").Attr("serial", i).Attr("index", i%128)).Obj().Spec.Devices[0]
		pool := poolOfDevice("gpu.example.com", device)
		for _, set := range []selector.Set{serial, index} {
			matches, err := selected(t, evaluator, pool, set)
			require.NoError(t, err)
			require.Equal(t, set.Same(&serial) && i == 7 || set.Same(&index) && i%128 == 7, matches)
		}
	}
	require.EqualValues(t, 1000+128, evaluator.Evaluations())
	require.Less(t, looks.Taken(), 128*400, "of serial numbers, nothing is kept any more")
}

// TestLongExpressionsReadLittle: many alternatives for one attribute are one read.
func TestLongExpressionsReadLittle(t *testing.T) {
	t.Parallel()
	evaluator := newLookingEvaluator()
	var alternatives []string
	for i := range 40 {
		alternatives = append(alternatives, fmt.Sprintf(`device.attributes["gpu.example.com"].model == "Example Accelerator %d"`, i))
	}
	set := setOf(b.Class("c"), strings.Join(alternatives, " || "))
	for i := range 20 {
		device := b.NodeSlice("n", b.Device("d").Attr("model", "Example Accelerator 39").Attr("uuid", fmt.Sprint(i))).Obj().Spec.Devices[0]
		matches, err := selected(t, evaluator, poolOfDevice("gpu.example.com", device), set)
		require.NoError(t, err)
		require.True(t, matches)
	}
	require.EqualValues(t, 1, evaluator.Evaluations())
}

// TestNamesWithSlashes: the code does not guess where CEL splits the name of an attribute.
func TestNamesWithSlashes(t *testing.T) {
	t.Parallel()
	evaluator, set := newLookingEvaluator(), setOf(b.Class("c"), `device.attributes["gpu.example.com"]["b/c"] == "x"`)
	for name, want := range map[resourceapi.QualifiedName]bool{"gpu.example.com/b/c": true, "b/c": false} {
		device := resourceapi.Device{Name: "d", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{name: {StringValue: ptr.To("x")}}}
		for range 2 {
			matches, err := selected(t, evaluator, poolOfDevice("gpu.example.com", device), set)
			require.Equal(t, want, matches, name)
			require.Equal(t, want, err == nil, "%s: %v", name, err)
		}
	}
}

// TestLooksAreBounded: the memory stays within its limit, regardless of the number of expressions and the
// length of errors.
func TestLooksAreBounded(t *testing.T) {
	t.Parallel()
	const bound = 100_000
	looks := selector.NewLooks(bound)
	evaluator := selector.NewEvaluator(cel.NewCache(10, cel.Features{}))
	evaluator.RememberLooks(looks)
	most := 0
	for i := range 300 {
		set := setOf(b.Class("c"), fmt.Sprintf(`device.attributes["gpu.example.com"].missing%s%d == device.attributes["gpu.example.com"].index`, strings.Repeat("x", 200), i))
		for index := range 5 {
			device := b.NodeSlice("n", b.Device("d").Attr("index", index)).Obj().Spec.Devices[0]
			_, err := selected(t, evaluator, poolOfDevice("gpu.example.com", device), set)
			require.ErrorIs(t, err, selector.ErrRuntime)
			most = max(most, looks.Taken())
		}
	}
	require.Less(t, most, bound+3000, "one entry more than fits")
	require.Greater(t, most, bound/2)
}

// randomLook returns a device with few possible values, some of which are wrong.
func randomLook(random *rand.Rand) resourceapi.Device {
	device := resourceapi.Device{Name: "d", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}
	text := func(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &s} }
	values := []resourceapi.DeviceAttribute{
		text("a"), text("b"), {VersionValue: ptr.To("1.2.3")}, {VersionValue: ptr.To("0.1.0")},
		{BoolValue: ptr.To(true)}, {BoolValue: ptr.To(false)}, {IntValue: ptr.To[int64](1)}, {StringValues: []string{"a"}},
	}
	if random.Intn(10) == 0 {
		values = append(values, resourceapi.DeviceAttribute{}, resourceapi.DeviceAttribute{VersionValue: ptr.To("one")},
			resourceapi.DeviceAttribute{VersionValues: []string{"one"}},
			resourceapi.DeviceAttribute{IntValue: ptr.To[int64](1), VersionValue: ptr.To("one")})
	}
	names := map[resourceapi.QualifiedName]int{ // Which of the values are likely.
		"model": 0, "gpu.example.com/model": 0, "version": 2, "flag": 4, "index": 6, "list": 7, "uuid": 0, "gpu.example.com/flag": 4,
	}
	for name, likely := range names {
		switch random.Intn(5) {
		case 0: // Not there.
		case 1:
			device.Attributes[name] = values[random.Intn(len(values))]
		default:
			device.Attributes[name] = values[min(likely+random.Intn(2), len(values)-1)]
		}
	}
	if _, twice := device.Attributes["gpu.example.com/model"]; twice {
		delete(device.Attributes, "model") // CEL sees either of the two.
	}
	if _, twice := device.Attributes["gpu.example.com/flag"]; twice {
		delete(device.Attributes, "flag")
	}
	if random.Intn(2) == 0 {
		device.AllowMultipleAllocations = ptr.To(true)
	}
	if random.Intn(4) > 0 {
		device.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"memory": {Value: resource.MustParse([]string{"1Gi", "2Gi", "2048Mi"}[random.Intn(3)])},
		}
	}
	return device
}

func poolOfDevice(driver string, device resourceapi.Device) *inventory.NodePool {
	slice := b.NodeSlice("n").Obj()
	slice.Spec.Driver, slice.Spec.Devices = driver, []resourceapi.Device{device}
	return inventory.FromSlices([]*resourceapi.ResourceSlice{slice}, inventory.Options{}).OnNode(b.Node("n"))[0]
}
