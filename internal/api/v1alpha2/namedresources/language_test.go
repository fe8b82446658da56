package namedresources

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha2"
)

// device has one attribute of each kind, as conversion to the hub makes them.
func device(t *testing.T) dracel.Device {
	slice, err := v1alpha2.SliceToHub(&v1alpha2.ResourceSlice{
		DriverName: "gpu.example.com",
		NamedResources: &v1alpha2.NamedResourcesResources{Instances: []v1alpha2.NamedResourcesInstance{{Name: "gpu-0", Attributes: []v1alpha2.NamedResourcesAttribute{
			{Name: "memory", QuantityValue: ptr.To(resource.MustParse("20Gi"))},
			{Name: "ecc", BoolValue: ptr.To(true)},
			{Name: "index", IntValue: ptr.To[int64](3)},
			{Name: "links", IntSliceValue: &v1alpha2.NamedResourcesIntSlice{Ints: []int64{1, 2}}},
			{Name: "model.example.com", StringValue: ptr.To("a100")},
			{Name: "modes", StringSliceValue: &v1alpha2.NamedResourcesStringSlice{Strings: []string{"x", "y"}}},
			{Name: "none", StringSliceValue: &v1alpha2.NamedResourcesStringSlice{}},
			{Name: "driver", VersionValue: ptr.To("1.10.0-rc.1")},
		}}}},
	})
	require.NoError(t, err)
	return dracel.Device{Driver: slice.Spec.Driver, Attributes: slice.Spec.Devices[0].Attributes, Capacity: slice.Spec.Devices[0].Capacity}
}

func TestExpressions(t *testing.T) {
	t.Parallel()
	language := Language{}
	for expression, want := range map[string]bool{
		`true`: true,
		`attributes.quantity["memory"].isGreaterThan(quantity("10Gi"))`:          true,
		`attributes.quantity["memory"].compareTo(quantity("20480Mi")) == 0`:      true,
		`attributes.quantity["memory"].sub(quantity("1Gi")) == quantity("20Gi")`: false,
		`attributes.bool["ecc"]`:                                                        true,
		`!attributes.bool.ecc`:                                                          false,
		`attributes.int["index"] == 3`:                                                  true,
		`attributes.int["index"] > 2.5`:                                                 true,
		`2 in attributes.intslice["links"]`:                                             true,
		`attributes.intslice["links"].sum() == 3`:                                       true,
		`attributes.string["model.example.com"] == "a100"`:                              true,
		`attributes.string["model.example.com"].matches("^a[0-9]+$")`:                   true,
		`attributes.string["model.example.com"].upperAscii() == "A100"`:                 true,
		`attributes.stringslice["modes"].exists(m, m == "y")`:                           true,
		`sets.contains(attributes.stringslice["modes"], ["x"])`:                         true,
		`size(attributes.stringslice["none"]) == 0`:                                     true,
		`attributes.version["driver"].isLessThan(semver("1.10.0"))`:                     true,
		`attributes.version["driver"].major() == 1`:                                     true,
		`"index" in attributes.int && "missing" in attributes.string`:                   false,
		`has(attributes.int.index)`:                                                     true,
		`has(attributes.string.index)`:                                                  false, // It has another kind.
		`size(attributes.string) == 1`:                                                  true,
		`attributes.string[?"missing"].orValue("default") == "default"`:                 true,
		`attributes.int.all(name, attributes.int[name] == 3)`:                           true,
		`"missing" in attributes.string && attributes.string["missing"] == "something"`: false,
		`attributes.int["missing"] == 1 || attributes.bool["ecc"]`:                      true, // As CEL has it.
		`ip("10.0.0.1").family() == 4`:                                                  true, // New in 1.30.
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			program, is, err := language.Compile(v1alpha2.MarkExpression(expression))
			require.True(t, is)
			require.NoError(t, err)
			matches, err := program(t.Context(), device(t))
			require.NoError(t, err)
			require.Equal(t, want, matches)
		})
	}
}

const loop = `[1,2,3,4,5,6,7,8,9,10]`

func TestExpressionsThatFail(t *testing.T) {
	t.Parallel()
	language := Language{}
	for expression, says := range map[string]string{
		`attributes.int["missing"] == 3`:                                      "no such key: missing",
		`attributes.string["index"]=="3"`:                                     "no such key: index",
		strings.Repeat(loop+`.all(x, `, 7) + "x > 0" + strings.Repeat(")", 7): "cost limit exceeded",
	} {
		program, is, err := language.Compile(v1alpha2.MarkExpression(expression))
		require.True(t, is)
		require.NoError(t, err)
		_, err = program(t.Context(), device(t))
		require.ErrorContains(t, err, says)
	}
	odd := device(t)
	odd.Attributes["version/driver"] = resourceapi.DeviceAttribute{VersionValue: ptr.To("one")}
	program, _, err := language.Compile(v1alpha2.MarkExpression("true"))
	require.NoError(t, err)
	_, err = program(t.Context(), odd)
	require.ErrorContains(t, err, `attribute version/driver: read "one" as a semantic version`)
}

func TestExpressionsThatDoNotCompile(t *testing.T) {
	t.Parallel()
	language := Language{}
	for expression, says := range map[string]string{
		`attributes.`:                           "Syntax error",
		`attributes.float["x"] > 1.0`:           "undeclared reference",
		`device.driver == "gpu.example.com"`:    "undeclared reference", // That is v1.
		`attributes.int["index"]`:               "must evaluate to bool and is int",
		`attributes.int["index"] == "3"`:        "no matching overload",
		`semver("v1", true) == semver("1.0.0")`: "no matching overload", // Later than 1.30.
	} {
		program, is, err := language.Compile(v1alpha2.MarkExpression(expression))
		require.True(t, is)
		require.ErrorContains(t, err, says, expression)
		require.Nil(t, program)
	}
}

func TestOtherLanguages(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{"", "true", `device.driver == "d"`, "v1alpha2"} {
		_, is, err := Language{}.Compile(expression)
		require.NoError(t, err)
		require.False(t, is, expression)
	}
}

func TestInterruption(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	program, _, err := Language{}.Compile(v1alpha2.MarkExpression(loop + `.all(a, ` + loop + `.all(b, ` + loop + `.all(c, a + b + c > 0)))`))
	require.NoError(t, err)
	_, err = program(ctx, device(t))
	require.ErrorContains(t, err, "interrupted")
}
