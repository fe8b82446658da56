package config

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	tracingapi "k8s.io/component-base/tracing/api/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/utils/ptr"
)

func TestParseArgs(t *testing.T) {
	t.Parallel()
	raw := func(text string) runtime.Object { return &runtime.Unknown{Raw: []byte(text)} }
	tests := map[string]struct {
		args runtime.Object
		want string // part of the error
	}{
		"none":                {},
		"empty":               {args: raw("")},
		"empty object":        {args: raw("{}")},
		"JSON":                {args: raw(`{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "QuartermasterArgs"}`)},
		"YAML":                {args: raw("apiVersion: kubescheduler.config.k8s.io/v1\nkind: QuartermasterArgs\n")},
		"typed":               {args: &QuartermasterArgs{}},
		"typed, with kind":    {args: &QuartermasterArgs{TypeMeta: metav1.TypeMeta{Kind: ArgsKind, APIVersion: ArgsAPIVersion}}},
		"unknown field, JSON": {args: raw(`{"stepLimit": 3}`), want: `unknown field "stepLimit"`},
		"unknown field, YAML": {args: raw("kind: QuartermasterArgs\nstepLimit: 3\n"), want: `unknown field "stepLimit"`},
		"field twice":         {args: raw("kind: QuartermasterArgs\nkind: QuartermasterArgs\n"), want: `key "kind" already set`},
		"no object":           {args: raw("[1, 2]"), want: "arguments of plugin Quartermaster are not understood"},
		"settle time":         {args: raw("settleTime: 2s")},
		"no settle time":      {args: raw("settleTime: 0s\nonConflict: Evict")},
		"negative":            {args: raw("settleTime: -1s"), want: "settleTime is -1s; it must not be negative"},
		"takeover pause":      {args: raw("takeoverPause: 0s")},
		"negative pause":      {args: raw("takeoverPause: -1s"), want: "takeoverPause is -1s; it must not be negative"},
		"unknown policy":      {args: raw("onConflict: Delete"), want: `onConflict is "Delete"; it has to be Report or Evict`},
		"step budgets":        {args: raw("stepBudget: 1000\nattemptStepBudget: 1000")},
		"few steps":           {args: raw("stepBudget: 999"), want: "stepBudget is 999; it has to be at least 1000"},
		"negative steps":      {args: raw("stepBudget: -1"), want: "stepBudget is -1; it has to be at least 1000"},
		"fewer for all nodes": {args: raw("attemptStepBudget: 99999"), want: "attemptStepBudget is 99999; it has to be at least stepBudget, which is 100000"},
		"no number":           {args: raw("stepBudget: many"), want: "arguments of plugin Quartermaster are not understood"},
		"no claim events":     {args: raw("claimEventsPerSecond: 0")},
		"negative events":     {args: raw("claimEventsPerSecond: -1"), want: "claimEventsPerSecond is -1; it has to be at most 100, and 0 means no events"},
		"many claim events":   {args: raw("claimEventsPerSecond: 101"), want: "claimEventsPerSecond is 101; it has to be at most 100"},
		"tracing":             {args: raw("tracing: {endpoint: \"collector:4317\", samplingRatePerMillion: 1000}")},
		"tracing, no rate":    {args: raw("tracing: {}")},
		"tracing too much":    {args: raw("tracing: {samplingRatePerMillion: 1000001}"), want: "tracing.samplingRatePerMillion: Invalid value: 1000001"},
		"tracing elsewhere":   {args: raw("tracing: {endpoint: \"https://collector\"}"), want: "tracing.endpoint: Invalid value"},
		"cache size":          {args: raw("cacheSize: 1Mi")},
		"cache too small":     {args: raw("cacheSize: 1M"), want: "cacheSize is 1M; it has to be at least 1Mi and at most 1Pi"},
		"cache of no size":    {args: raw("cacheSize: 0"), want: "cacheSize is 0; it has to be at least 1Mi"},
		"cache too large":     {args: raw("cacheSize: 2Pi"), want: "cacheSize is 2Pi; it has to be at least 1Mi and at most 1Pi"},
		"strategies":          {args: raw("strategy: pack\nclassStrategies: {gpu: spread, nic: leastFragmentation}")},
		"unknown strategy":    {args: raw("strategy: Pack"), want: `strategy is "Pack"; it has to be leastFragmentation, consolidate or spread`},
		"cost label":          {args: raw("strategy: consolidate\nnodeCostLabel: example.com/cost")},
		"no label":            {args: raw("nodeCostLabel: a cost"), want: `nodeCostLabel is "a cost"; it has to be the key of a label`},
		"class, unknown":      {args: raw("classStrategies: {gpu: none}"), want: `the strategy of class gpu is "none"; it has to be`},
		"preemption delay":    {args: raw("preemptionDelay: 2m")},
		"negative delay":      {args: raw("preemptionDelay: -1s"), want: "preemptionDelay is -1s; it must not be negative"},
		"no holds":            {args: raw("holdAfter: 0s\nholdAfterByPriorityClass: {batch: 1h}\nmaxHolds: 0\nmaxHeldPercent: 0\nmaxHeldPercentPerNamespace: 100")},
		"negative hold":       {args: raw("holdAfter: -1s"), want: "holdAfter is -1s; it has to be at least 0, which means that nothing is held"},
		"negative for class":  {args: raw("holdAfterByPriorityClass: {batch: -1s}"), want: "holdAfterByPriorityClass of batch is -1s; it has to be at least 0"},
		"many holds":          {args: raw("maxHolds: 65"), want: "maxHolds is 65; it has to be from 0 to 64"},
		"percent":             {args: raw("maxHeldPercent: 101"), want: "maxHeldPercent is 101; it has to be from 0 to 100"},
		"percent, namespace":  {args: raw("maxHeldPercentPerNamespace: -1"), want: "maxHeldPercentPerNamespace is -1; it has to be from 0 to 100"},
		"no closeness":        {args: raw("closeness: []")},
		"closeness":           {args: raw("closeness: [gpu.example.com/link]")},
		"short attribute":     {args: raw("closeness: [link]"), want: `closeness has attribute "link"; it has to be named in full`},
		"many attributes":     {args: raw("closeness: [a/a, a/b, a/c, a/d, a/e]"), want: "closeness has 5 attributes; it can have 4"},
		"wrong kind": {
			args: raw(`{"kind": "DynamicResourcesArgs"}`),
			want: `arguments of plugin Quartermaster are kind "DynamicResourcesArgs" of "", expected are kind QuartermasterArgs of kubescheduler.config.k8s.io/v1`,
		},
		"wrong version": {args: raw(`{"apiVersion": "kubescheduler.config.k8s.io/v1beta3", "kind": "QuartermasterArgs"}`), want: `of "kubescheduler.config.k8s.io/v1beta3"`},
		"other type":    {args: &config.DynamicResourcesArgs{}, want: "are of type *config.DynamicResourcesArgs, expected are kind QuartermasterArgs"},
		"typed, wrong kind": {
			args: &QuartermasterArgs{TypeMeta: metav1.TypeMeta{Kind: "NodeAffinityArgs"}}, want: `are kind "NodeAffinityArgs"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args, err := Parse(test.args, allTimeouts)
			if test.want == "" {
				require.NoError(t, err)
				require.NotNil(t, args)
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestDefaultArgs(t *testing.T) {
	t.Parallel()
	args, err := Parse(nil, allTimeouts)
	require.NoError(t, err)
	require.Equal(t, 500*time.Millisecond, args.SettleTime.Duration)
	require.Equal(t, time.Minute, args.TakeoverPause.Duration)
	require.Equal(t, ReportConflicts, args.OnConflict)
	require.Equal(t, "64Mi", args.CacheSize.String())
	require.EqualValues(t, 100_000, *args.StepBudget)
	require.EqualValues(t, 2_000_000, *args.AttemptStepBudget)
	require.EqualValues(t, 10, *args.ClaimEventsPerSecond)
	args, err = Parse(&runtime.Unknown{Raw: []byte("settleTime: 0s\nstepBudget: 9223372036854775807")}, allTimeouts)
	require.NoError(t, err)
	require.EqualValues(t, math.MaxInt64, *args.AttemptStepBudget, "as many as there can be")
	require.Zero(t, args.SettleTime.Duration, "0 is not the default")
}

func TestArgsAreCopied(t *testing.T) {
	t.Parallel()
	args := &QuartermasterArgs{TypeMeta: metav1.TypeMeta{Kind: ArgsKind}, SettleTime: &metav1.Duration{Duration: time.Second}, StepBudget: ptr.To[int64](1), AttemptStepBudget: ptr.To[int64](2), ClaimEventsPerSecond: ptr.To[int32](3)}
	args.Tracing = &tracingapi.TracingConfiguration{Endpoint: ptr.To("here")}
	other := args.DeepCopyObject().(*QuartermasterArgs)
	*other.Tracing.Endpoint = "there"
	require.Equal(t, "here", *args.Tracing.Endpoint)
	other.Kind, other.SettleTime.Duration = "changed", 0
	*other.StepBudget, *other.AttemptStepBudget, *other.ClaimEventsPerSecond = 0, 0, 0
	require.Equal(t, ArgsKind, args.Kind)
	require.Equal(t, time.Second, args.SettleTime.Duration)
	require.EqualValues(t, 1, *args.StepBudget)
	require.EqualValues(t, 2, *args.AttemptStepBudget)
	require.EqualValues(t, 3, *args.ClaimEventsPerSecond)
}

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
			args, err := Parse(&runtime.Unknown{Raw: []byte(test.args)}, test.features)
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

// TestEarlierNameOfConsolidate: configurations with pack go on to work, and place pods without devices as well unless they say no.
func TestEarlierNameOfConsolidate(t *testing.T) {
	t.Parallel()
	raw := func(text string) *runtime.Unknown { return &runtime.Unknown{Raw: []byte(text)} }
	for text, want := range map[string]bool{
		"strategy: pack": true, "strategy: consolidate": true, "strategy: pack\nplacePodsWithoutDevices: false": false,
		"classStrategies: {gpu: pack}": false,
	} {
		args, err := Parse(raw(text), allTimeouts)
		require.NoError(t, err)
		require.Equal(t, want, *args.PlacePodsWithoutDevices, text)
		require.NotEqual(t, Pack, args.Strategy)
		require.NotEqual(t, Pack, args.ClassStrategies["gpu"])
		require.NotContains(t, NewObjectives(args).names, Pack)
	}
}
