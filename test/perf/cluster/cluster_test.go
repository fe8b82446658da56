package cluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
)

// templateOf writes a template of a slice with the given lines for its devices.
func templateOf(t *testing.T, devices string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "slice.yaml")
	text := "metadata: {name: slice-{{.Index}}}\n" +
		"spec:\n  driver: d\n  nodeName: node-{{.Index}}\n  pool: {name: pool-{{.Index}}}\n" + devices
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// fourDevices are four nodes with four devices each.
func fourDevices(t *testing.T) []*resourceapi.ResourceSlice {
	t.Helper()
	slices, err := Slices([]string{templateOf(t, "  devices: [{{range 4}}{name: device-{{.}}},{{end}}]\n")}, 4)
	require.NoError(t, err)
	return slices
}

func TestSlices(t *testing.T) {
	slices := fourDevices(t)
	require.Len(t, slices, 4)
	require.Equal(t, "slice-3", slices[3].Name)
	require.Equal(t, "node-3", *slices[3].Spec.NodeName)
	require.Len(t, slices[3].Spec.Devices, 4)

	_, err := Slices([]string{templateOf(t, "  gadgets: []\n")}, 1)
	require.ErrorContains(t, err, "gadgets")
}

func TestOccupying(t *testing.T) {
	for name, test := range map[string]struct {
		claims, perClaim, perNode int
		wantPerNode               int
		wantError                 string
	}{
		"every device":                  {claims: 16, perClaim: 1, wantPerNode: 4},
		"pairs":                         {claims: 8, perClaim: 2, wantPerNode: 4},
		"what is left over stays":       {claims: 4, perClaim: 3, wantPerNode: 3},
		"one claim a node":              {claims: 4, perClaim: 2, perNode: 1, wantPerNode: 2},
		"more claims than devices":      {claims: 17, perClaim: 1, wantError: "there is room for 16"},
		"more devices than a node has":  {claims: 1, perClaim: 5, wantError: "there is room for 0"},
		"more claims than are for them": {claims: 5, perClaim: 1, perNode: 1, wantError: "there is room for 4"},
	} {
		t.Run(name, func(t *testing.T) {
			claims, err := Occupying(fourDevices(t), test.claims, test.perClaim, test.perNode)
			if test.wantError != "" {
				require.ErrorContains(t, err, test.wantError)
				return
			}
			require.NoError(t, err)
			taken := make(map[string]bool)
			perPool := make(map[string]int)
			for _, claim := range claims {
				results := claim.Status.Allocation.Devices.Results
				require.Len(t, results, test.perClaim)
				node := claim.Status.Allocation.NodeSelector.NodeSelectorTerms[0].MatchFields[0].Values[0]
				for _, result := range results {
					require.Equal(t, "pool-"+node[len("node-"):], result.Pool, "a device of another node")
					require.False(t, taken[result.Pool+result.Device], "%s of %s is taken twice", result.Device, result.Pool)
					taken[result.Pool+result.Device] = true
					perPool[result.Pool]++
				}
			}
			require.Len(t, perPool, 4)
			for pool, count := range perPool {
				require.Equal(t, test.wantPerNode, count, pool)
			}
		})
	}
}

func TestOccupyingIsRepeatable(t *testing.T) {
	first, err := Occupying(fourDevices(t), 8, 1, 0)
	require.NoError(t, err)
	second, err := Occupying(fourDevices(t), 8, 1, 0)
	require.NoError(t, err)
	require.Equal(t, first, second)
}
