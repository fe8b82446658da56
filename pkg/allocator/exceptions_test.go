package allocator_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/pkg/builder"
)

// exceptions are all cases in which this allocator answers otherwise than upstream
// 1.37.1 on purpose. Each has a test below with both answers. Comparisons do not
// leave them out: upstream is asked a question to which it has our answer.
var exceptions = []struct {
	name, reference string
	forUpstream     func(scenario) scenario
}{
	{
		name:        "shares are in use although DRAConsumableCapacity is off",
		reference:   "KEP-5075, TestSharesAreInUseWithoutTheFeature",
		forUpstream: sharedDevicesAsAllocated,
	},
}

// forUpstream is the scenario in which upstream has to answer as we do.
func (s scenario) forUpstream() scenario {
	for _, exception := range exceptions {
		s = exception.forUpstream(s)
	}
	return s
}

func sharedDevicesAsAllocated(s scenario) scenario {
	if s.features.ConsumableCapacity || len(s.state.AllocatedSharedDeviceIDs) == 0 && len(s.state.AggregatedCapacity) == 0 {
		return s
	}
	s.state.AllocatedDevices = s.state.AllocatedDevices.Clone()
	for id := range s.state.AllocatedSharedDeviceIDs {
		s.state.AllocatedDevices.Insert(id.GetDeviceID())
	}
	for id := range s.state.AggregatedCapacity {
		s.state.AllocatedDevices.Insert(id)
	}
	return s
}

// TestSharesAreInUseWithoutTheFeature has a device of which somebody has a share from
// the time when DRAConsumableCapacity was on. Upstream, with the feature off, gives
// the whole device to another claim as well; we never give out what is in use.
func TestSharesAreInUseWithoutTheFeature(t *testing.T) {
	s := dropInCase(onNode("p", gpus(2)...))
	share := types.UID("share")
	s.state.AllocatedSharedDeviceIDs = sets.New(structured.MakeSharedDeviceID(structured.MakeDeviceID(b.Driver, "p", "gpu-0"), &share))

	upstream, err := s.run(t.Context(), structured.NewAllocator, newCache())
	require.NoError(t, err)
	require.Equal(t, []string{"gpu=p/gpu-0"}, chosen(upstream[0]))

	ours, err := s.run(t.Context(), allocator.New, newCache())
	require.NoError(t, err)
	require.Equal(t, []string{"gpu=p/gpu-1"}, chosen(ours[0]))

	diff, _ := s.compare(t.Context(), newCache())
	require.Empty(t, diff)
}
