package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// allTimeouts are the features with which both timeouts can be set.
var allTimeouts = feature.Features{
	EnableDRASchedulerFilterTimeout: true, EnableDRADeviceBindingConditions: true, EnableDRAResourceClaimDeviceStatus: true,
}

func TestTimeoutArgs(t *testing.T) {
	t.Parallel()
	bindingOnly := feature.Features{EnableDRADeviceBindingConditions: true, EnableDRAResourceClaimDeviceStatus: true}
	filterOnly := feature.Features{EnableDRASchedulerFilterTimeout: true}
	duration := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	tests := map[string]struct {
		args            string
		features        feature.Features
		filter, binding *metav1.Duration
		err             string
	}{
		"defaults":               {features: allTimeouts, filter: duration(10 * time.Second), binding: duration(10 * time.Minute)},
		"defaults, all off":      {},
		"defaults, filter only":  {features: filterOnly, filter: duration(10 * time.Second)},
		"defaults, binding only": {features: bindingOnly, binding: duration(10 * time.Minute)},
		"both set":               {args: "filterTimeout: 1ms\nbindingTimeout: 1s", features: allTimeouts, filter: duration(time.Millisecond), binding: duration(time.Second)},
		"no filter timeout":      {args: "filterTimeout: 0s", features: filterOnly, filter: duration(0)},
		"negative filter timeout": {args: "filterTimeout: -1s", features: allTimeouts,
			err: "filterTimeout is -1s; it must not be negative, and 0 means no limit"},
		"filter timeout, gate off": {args: "filterTimeout: 1s", features: bindingOnly,
			err: "filterTimeout is set, but feature gate DRASchedulerFilterTimeout is off; turn the gate on or leave out the argument"},
		"even 0, gate off": {args: "filterTimeout: 0s", features: bindingOnly, err: "filterTimeout is set, but"},
		"short binding timeout": {args: "bindingTimeout: 999ms", features: allTimeouts,
			err: "bindingTimeout is 999ms; it has to be at least 1s"},
		"no binding timeout": {args: "bindingTimeout: 0s", features: allTimeouts, err: "bindingTimeout is 0s; it has to be at least 1s"},
		"binding timeout, gate off": {args: "bindingTimeout: 1m", features: filterOnly,
			err: "bindingTimeout is set, but feature gate DRADeviceBindingConditions or DRAResourceClaimDeviceStatus is off; turn both on"},
		"binding timeout, half on": {args: "bindingTimeout: 1m", features: feature.Features{EnableDRADeviceBindingConditions: true},
			err: "bindingTimeout is set, but"},
		"no duration": {args: "bindingTimeout: soon", features: allTimeouts, err: "arguments of plugin Quartermaster are not understood"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args, err := parseArgs(&runtime.Unknown{Raw: []byte(test.args)}, test.features)
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.filter, args.FilterTimeout)
			require.Equal(t, test.binding, args.BindingTimeout)
		})
	}
}

func TestTimeoutArgsAreCopied(t *testing.T) {
	t.Parallel()
	args := &QuartermasterArgs{FilterTimeout: &metav1.Duration{Duration: 1}, BindingTimeout: &metav1.Duration{Duration: 2}}
	other := args.DeepCopyObject().(*QuartermasterArgs)
	other.FilterTimeout.Duration, other.BindingTimeout.Duration = 0, 0
	require.Equal(t, time.Duration(1), args.FilterTimeout.Duration)
	require.Equal(t, time.Duration(2), args.BindingTimeout.Duration)
}
