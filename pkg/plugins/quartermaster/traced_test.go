package quartermaster

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	tracingapi "k8s.io/component-base/tracing/api/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/telemetry/tracing"
)

// TestSpansOfAnAttempt: a pod that is bound in the end, after a conflict.
func TestSpansOfAnAttempt(t *testing.T) {
	t.Parallel()
	inCluster(t, conflictWorld(), func(t *testing.T, f *fixture) {
		recorder := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
		plugin := tracing.Around(f.pl, provider.Tracer(""), "default").(tracing.Plugin)
		attempt := func() (spans map[string][]string) {
			recorder.Reset()
			pod, cs := f.pod("p"), framework.NewCycleState()
			_, status := plugin.PreFilter(f.ctx, cs, pod, f.nodeInfos())
			require.NoError(t, status.AsError())
			require.NoError(t, plugin.Filter(f.ctx, cs, pod, f.nodeInfos()[0]).AsError())
			require.NoError(t, plugin.Reserve(f.ctx, cs, pod, "n1").AsError())
			if plugin.PreBind(f.ctx, cs, pod, "n1").IsSuccess() {
				plugin.PostBind(f.ctx, cs, pod, "n1")
			} else {
				plugin.Unreserve(f.ctx, cs, pod, "n1")
			}
			names := make(map[any]string)
			for _, span := range recorder.Ended() {
				names[span.SpanContext().SpanID()] = span.Name()
			}
			spans = make(map[string][]string)
			for _, span := range recorder.Ended() {
				parent := names[span.Parent().SpanID()]
				spans[parent] = append(spans[parent], span.Name())
			}
			return spans
		}
		f.beforeOurs(func() { f.otherInstanceAllocates("conflicting", "n1", "gpu-0") })
		spans := attempt()
		require.Equal(t, []string{"Schedule"}, spans[""])
		require.Equal(t, []string{"PreFilter", "Filter", "Reserve", "PreBind", "Unreserve"}, spans["Schedule"])
		require.Equal(t, []string{"await others", "write", "await the watch", "check", "yield"}, slices.Compact(spans["PreBind"]))
		f.settle()
		spans = attempt()
		require.Equal(t, []string{"PreFilter", "Filter", "Reserve", "PreBind", "PostBind"}, spans["Schedule"])
		require.Contains(t, spans["PreBind"], "write")
		require.Contains(t, spans["PreBind"], "bind the pod")
		require.Equal(t, []string{"n1/gpu-1"}, deviceNames(f.claim("c")))
	})
}

// TestTracedPluginIsTheSame: kube-scheduler finds everything in a plugin with spans that it finds in one without.
func TestTracedPluginIsTheSame(t *testing.T) {
	t.Parallel()
	wrapped := reflect.TypeOf(tracing.Around(&Quartermaster{}, sdktrace.NewTracerProvider().Tracer(""), "default"))
	own := reflect.TypeFor[*Quartermaster]()
	for i := range own.NumMethod() {
		name := own.Method(i).Name
		if name == "AddPod" || name == "RemovePod" {
			continue // Those are what PreFilterExtensions returns.
		}
		_, has := wrapped.MethodByName(name)
		require.True(t, has, "%s has to be in traced.Plugin", name)
	}
}

// TestTracingArgument: with a rate the plugin has spans, without it is as it would be.
func TestTracingArgument(t *testing.T) {
	t.Parallel()
	inCluster(t, nil, func(t *testing.T, f *fixture) {
		for profile, rate := range map[string]int32{"plain": 0, "traced": 1} {
			args := &QuartermasterArgs{Tracing: &tracingapi.TracingConfiguration{SamplingRatePerMillion: ptr.To(rate)}}
			_, plain := makePlugin(f, profile, args).(*Quartermaster)
			require.Equal(t, rate == 0, plain)
		}
	})
}
