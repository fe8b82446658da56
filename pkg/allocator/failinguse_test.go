package allocator_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestSelectorFailsOnDevicesInUse: the reason names a failing selector, and one device, even if all devices are in use.
func TestSelectorFailsOnDevicesInUse(t *testing.T) {
	t.Parallel()
	asks := b.Claim("c", b.Request("gpu", "gpu").Where(attr+".typo == 1"))
	for name, held := range map[string]int{"all in use": 3, "some in use": 1} {
		c := nodeWith(held, gpus(3)...)
		outcome, err := c.solve(t.Context(), asks)
		if held < 3 {
			require.ErrorContains(t, err, "claim default/c request gpu selector 0 on device ", name)
			continue
		}
		require.NoError(t, err)
		require.False(t, outcome.Fits())
		require.Contains(t, outcome.Reason(), "claim default/c request gpu: selector 0 on device gpu-0: CEL runtime error: no such key: typo", name)
		require.Contains(t, outcome.Reason(), "(and on 2 more)", name)
		require.Equal(t, allocator.BlameSelectors, outcome.Blame(), name)
	}
}
