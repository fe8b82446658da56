package whatif_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// The value of an attribute is only named if that many devices of it are missing.
func TestValueThatIsNear(t *testing.T) {
	for free, want := range map[string]string{
		"gpu-0": "one more free device with gpu.example.com/numa = 0 for request gpu",
		"gpu-3": "one more free device with the same gpu.example.com/numa for request gpu", // numa 1, of which it is known only that one is free
		"":      "2 more free devices with gpu.example.com/numa = 0 for request gpu",
	} {
		t.Run("free "+free, func(t *testing.T) {
			o := cluster(1, 0)
			devices := builder.NumberedDevices("gpu", 4)
			for i, device := range devices {
				name := fmt.Sprintf("gpu-%d", i)
				device.Attr("numa", i/2)
				if name != free {
					holding(&o, name, "node-0000", name)
				}
			}
			o.Slices[0] = builder.NodeSlice("node-0000", devices...).Obj()
			o.Templates = append(o.Templates, builder.Claim("pair", builder.Request("gpu", builder.Driver).Count(2)).Match("gpu.example.com/numa").Template())
			e, err := whatif.New(o, whatif.Options{}).Explain(t.Context(), user("a", "pair"))
			require.NoError(t, err)
			require.Len(t, e.Nearest, 1)
			assert.Equal(t, []string{want}, e.Nearest[0].Lacking)
		})
	}
}
