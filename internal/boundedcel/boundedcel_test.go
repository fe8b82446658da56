package boundedcel

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestCapacities: countable capacities are not copied, and the others are not modified. For expressions see
// TestEndlessQuantities of pkg/selector.
func TestCapacities(t *testing.T) {
	t.Parallel()
	given := map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("40Gi")}}
	Capacities(given)["endless"] = resourceapi.DeviceCapacity{Value: resource.MustParse("1e999999999")}
	require.Contains(t, given, resourceapi.QualifiedName("endless"), "not copied")

	bounded := Capacities(given)
	require.Equal(t, given["memory"], bounded["memory"])
	endless := bounded["endless"].Value
	require.Equal(t, 1, endless.Cmp(resource.MustParse("1Ei")))
	require.Equal(t, resource.MustParse("1e999999999"), given["endless"].Value)
}
