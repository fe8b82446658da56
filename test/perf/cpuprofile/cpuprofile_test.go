package cpuprofile

import (
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// sample makes a sample of a stack, innermost function first.
func sample(spent time.Duration, stack ...string) *profile.Sample {
	made := &profile.Sample{Value: []int64{1, int64(spent)}}
	for _, name := range stack {
		made.Location = append(made.Location, &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: name}}}})
	}
	return made
}

func TestUsage(t *testing.T) {
	parsed := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		Sample: []*profile.Sample{
			sample(time.Second, "encoding/json.Marshal", "k8s.io/kubernetes/pkg/scheduler.(*Scheduler).schedulingCycle", "runtime.goexit"),
			sample(2*time.Second, "k8s.io/kubernetes/pkg/scheduler/framework/runtime.(*frameworkImpl).RunFilterPlugins"),
			sample(4*time.Second, "github.com/quartermaster-dra/quartermaster/pkg/inventory.(*Store).Apply"),
			sample(8*time.Second, "k8s.io/dynamic-resource-allocation/resourceslice/tracker.(*Tracker).syncSlice"),
			sample(16*time.Second, "k8s.io/apiserver/pkg/endpoints/handlers.createHandler.func1"),
			sample(32*time.Second, "k8s.io/kubernetes/pkg/schedulers.other"),
			sample(64 * time.Second),
			sample(128*time.Second, "github.com/quartermaster-dra/quartermaster/test/perf/timing.(*timedPlugin).Filter",
				"k8s.io/kubernetes/pkg/scheduler/framework/runtime.(*frameworkImpl).RunFilterPlugins"),
			sample(256*time.Second, "github.com/quartermaster-dra/quartermaster/test/perf/timing.(*timedPlugin).PreBind",
				"k8s.io/kubernetes/pkg/scheduler/framework/runtime.(*frameworkImpl).RunPreBindPlugins"),
		},
	}
	got, err := usage(parsed)
	require.NoError(t, err)
	require.Equal(t, Usage{Process: 511 * time.Second, Scheduler: 399 * time.Second, Plugin: 128 * time.Second}, got)
}

func TestUsageOfAnotherProfile(t *testing.T) {
	_, err := usage(&profile.Profile{SampleType: []*profile.ValueType{{Type: "inuse_space", Unit: "bytes"}}})
	require.ErrorContains(t, err, "no CPU profile")
}
