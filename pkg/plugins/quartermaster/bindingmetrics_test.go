package quartermaster

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
)

// metricsProfiles counts profiles, so that each test has its own series.
var metricsProfiles atomic.Int64

// TestBindingMetrics: the scheduler's metrics count what happened.
func TestBindingMetrics(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		do      func(f *fixture)
		seconds float64
	}{
		"success": {do: func(f *fixture) { f.changeClaim("c", report(attached)) }, seconds: 60},
		"failure": {do: func(f *fixture) { f.changeClaim("c", report(broken)) }, seconds: 60},
		"timeout": {do: func(*fixture) { time.Sleep(time.Hour) }, seconds: 600},
		"error":   {do: func(f *fixture) { f.remove(f.pod("p")) }, seconds: 60},
	}
	for status, test := range tests {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				profile := fmt.Sprint("metrics-", metricsProfiles.Add(1))
				other := builder.Slice("other").OfDriver("other.example.com").OnNode("n1").Devices(builder.Device("d")).Obj()
				claim := builder.Claim("c", builder.Request("gpu", "gpu").Where(`device.driver == "gpu.example.com"`),
					builder.Request("other", "gpu").Where(`device.driver == "other.example.com"`)).Obj()
				f := newFixture(t, startServer(t, plus(fabricNodes("n1"), other, claim, newPod("p", uses("c")))...), profile)
				f.start()
				p := f.scheduleMeanwhile(f.pod("p"))
				time.Sleep(time.Minute)
				test.do(f)
				p.result()

				for driver, conditional := range map[string]float64{builder.Driver: 1, "other.example.com": 0} {
					vector, err := testutil.GetHistogramVecFromGatherer(legacyregistry.DefaultGatherer,
						"scheduler_dra_bindingconditions_wait_duration_seconds",
						map[string]string{"profile": profile, "driver": driver, "status": status})
					require.NoError(t, err)
					require.Equal(t, uint64(1), vector.GetAggregatedSampleCount(), "one device of %s", driver)
					require.InDelta(t, test.seconds, vector.GetAggregatedSampleSum(), 0.1)
					count, err := testutil.GetCounterMetricValue(
						schedmetrics.DRABindingConditionsAllocationsTotal.WithLabelValues(profile, driver, status))
					require.NoError(t, err)
					require.Equal(t, conditional, count, "devices of %s with binding conditions", driver)
				}
			})
		})
	}
}
