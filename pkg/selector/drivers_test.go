package selector

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// TestMayMatch: an expression excludes a driver if it is false for all devices that the driver can publish.
// An unknown result excludes no driver.
func TestMayMatch(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]struct{ ours, others bool }{
		`device.driver == "ours"`:                                           {true, false},
		`"ours" == device.driver`:                                           {true, false},
		`device["driver"] == "ours"`:                                        {true, true}, // It does not compile.
		`device.driver != "ours"`:                                           {false, true},
		`!(device.driver == "ours")`:                                        {false, true},
		`device.driver in ["ours", "also"]`:                                 {true, false},
		`device.driver in ["ours", device.driver]`:                          {true, true},
		`device.driver == "ours" && device.attributes["ours"].model == "a"`: {true, false},
		`device.attributes["ours"].model == "a" && device.driver == "ours"`: {true, false},
		`device.driver == "ours" || device.attributes["x"].model == "a"`:    {true, true},
		`device.driver == "ours" || device.driver == "also"`:                {true, false},
		`device.driver == "ours" ? true : false`:                            {true, true},
		`device.driver.startsWith("ours")`:                                  {true, true},
		`!(device.driver != "ours" || device.allowMultipleAllocations)`:     {true, false},
		`device.driver == "ours" && device.driver == "also"`:                {false, false},
		`["ours"].exists(device, device == "x") && device.driver == "ours"`: {true, false},
		`true`:              {true, true},
		`device.driver == `: {true, true},
		`(device.driver == "ours" && device.attributes["a"].b) || device.driver == "also"`:      {true, false},
		`device.attributes["ours"].exists_one(k, k == "b") && !(device.driver in ["others"])`:   {true, false},
		`device.driver == "others" || device.driver == "ours" || device.capacity["a"].b == "x"`: {true, true},
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			e := NewEvaluator(NewCompiler(cel.Features{}))
			class := &resourceapi.DeviceClass{}
			request := []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
			set := NewSet(class, new(resourceapi.ResourceClaim), "r", request)
			require.Equal(t, want.ours, e.MayMatch(set, "ours"))
			require.Equal(t, want.others, e.MayMatch(set, "others"))
		})
	}
}
