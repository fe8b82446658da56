package tracing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// simple is a plugin with preset results.
type simple struct {
	Plugin
	preFilter, reserve, preBind *fwk.Status
	// within are the names of the spans in which calls were made.
	within []string
}

func (s *simple) Name() string { return "Simple" }

func (s *simple) saw(ctx context.Context) {
	if span, ok := trace.SpanFromContext(ctx).(sdktrace.ReadOnlySpan); ok {
		s.within = append(s.within, span.Name())
	}
}

func (s *simple) PreFilter(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	s.saw(ctx)
	return nil, s.preFilter
}

func (s *simple) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if strings.HasSuffix(node.Node().Name, "0") {
		return nil
	}
	return fwk.NewStatus(fwk.Unschedulable, "no devices")
}

func (s *simple) PostFilter(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	s.saw(ctx)
	return nil, fwk.NewStatus(fwk.Unschedulable, "nobody to evict")
}

func (s *simple) PreScore(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) *fwk.Status {
	return nil
}

func (s *simple) Score(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return 1, nil
}
func (s *simple) ScoreExtensions() fwk.ScoreExtensions { return s }

func (s *simple) NormalizeScore(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeScoreList) *fwk.Status {
	return nil
}

func (s *simple) Reserve(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, _ string) *fwk.Status {
	s.saw(ctx)
	return s.reserve
}

func (s *simple) PreBind(ctx context.Context, _ fwk.CycleState, _ *v1.Pod, _ string) *fwk.Status {
	s.saw(ctx)
	_, span := Start(ctx, "write")
	span.End(nil)
	return s.preBind
}
func (s *simple) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string) {}
func (s *simple) PostBind(context.Context, fwk.CycleState, *v1.Pod, string)  {}

// run goes through an attempt as kube-scheduler does, on 5,000 nodes.
func run(ctx context.Context, plugin Plugin, cs fwk.CycleState, pod *v1.Pod, fits bool) {
	if _, status := plugin.PreFilter(ctx, cs, pod, nil); status.IsSkip() || !status.IsSuccess() && !status.IsRejected() {
		return
	}
	nodes := make([]fwk.NodeInfo, 5000)
	for i := range nodes {
		info := framework.NewNodeInfo()
		info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i)}})
		nodes[i] = info
	}
	var running sync.WaitGroup
	for worker := range 8 {
		running.Go(func() {
			for i := worker; i < len(nodes); i += 8 {
				plugin.Filter(ctx, cs.Clone(), pod, nodes[i]) // A copy, as where pods are nominated.
			}
		})
	}
	running.Wait()
	if !fits {
		plugin.PostFilter(ctx, cs, pod, nil)
		return
	}
	plugin.PreScore(ctx, cs, pod, nodes[:3])
	for _, node := range nodes[:3] {
		_, _ = plugin.Score(ctx, cs, pod, node)
	}
	plugin.ScoreExtensions().NormalizeScore(ctx, cs, pod, nil)
	if status := plugin.Reserve(ctx, cs, pod, "n0"); !status.IsSuccess() {
		plugin.Unreserve(ctx, cs, pod, "n0")
		return
	}
	if status := plugin.PreBind(ctx, cs, pod, "n0"); !status.IsSuccess() {
		plugin.Unreserve(ctx, cs, pod, "n0")
		return
	}
	plugin.PostBind(ctx, cs, pod, "n0")
}

// trees are the root spans that have ended, each with what is below it, in the order of their ends.
func trees(recorder *tracetest.SpanRecorder) []string {
	ended := recorder.Ended()
	var below func(parent trace.SpanID) []string
	below = func(parent trace.SpanID) (texts []string) {
		for _, span := range ended {
			if span.Parent().SpanID() != parent {
				continue
			}
			text := describe(span)
			if children := below(span.SpanContext().SpanID()); children != nil {
				text += " (" + strings.Join(children, ", ") + ")"
			}
			texts = append(texts, text)
		}
		return texts
	}
	return below(trace.SpanID{})
}

// describe is the name of a span, and what is worth telling of it.
func describe(span sdktrace.ReadOnlySpan) string {
	text := span.Name()
	if span.Status().Code == codes.Error {
		text += "!"
	}
	for _, attribute := range span.Attributes() {
		switch attribute.Key {
		case "outcome":
			text += "=" + attribute.Value.AsString()
		case "nodes", "rejected":
			if attribute.Value.AsInt64() > 0 {
				text += fmt.Sprintf(" %s=%d", attribute.Key, attribute.Value.AsInt64())
			}
		}
	}
	return text
}

func newRecorder(sampler sdktrace.Sampler) (*tracetest.SpanRecorder, trace.Tracer) {
	recorder := tracetest.NewSpanRecorder()
	return recorder, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder), sdktrace.WithSampler(sdktrace.ParentBased(sampler))).Tracer(Scope)
}

func podNamed(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	failed := fwk.AsStatus(errors.New("failed"))
	for name, tc := range map[string]struct {
		plugin simple
		unfit  bool
		want   string
	}{
		"bound":            {want: "Schedule=bound (PreFilter, Filter nodes=5000 rejected=4500, PreScore nodes=3, Score nodes=3, NormalizeScore, Reserve, PreBind (write), PostBind)"},
		"no node":          {unfit: true, want: "Schedule=no node (PreFilter, Filter nodes=5000 rejected=4500, PostFilter)"},
		"reserve fails":    {plugin: simple{reserve: failed}, want: "Schedule=unreserved (PreFilter, Filter nodes=5000 rejected=4500, PreScore nodes=3, Score nodes=3, NormalizeScore, Reserve!, Unreserve)"},
		"binding fails":    {plugin: simple{preBind: failed}, want: "Schedule=unreserved (PreFilter, Filter nodes=5000 rejected=4500, PreScore nodes=3, Score nodes=3, NormalizeScore, Reserve, PreBind! (write), Unreserve)"},
		"prefilter fails":  {plugin: simple{preFilter: failed}, want: "Schedule!=failed (PreFilter!)"},
		"not our business": {plugin: simple{preFilter: fwk.NewStatus(fwk.Skip)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recorder, tracer := newRecorder(sdktrace.AlwaysSample())
			plugin := Around(&tc.plugin, tracer, "default").(*traced)
			run(t.Context(), plugin, framework.NewCycleState(), podNamed("p"), !tc.unfit)
			require.Equal(t, tc.want, strings.Join(trees(recorder), "; "))
			require.Zero(t, plugin.open.Len(), "nothing is kept")
			for _, span := range recorder.Ended() {
				require.False(t, span.EndTime().Before(span.StartTime()), span.Name())
				require.Equal(t, recorder.Ended()[0].SpanContext().TraceID(), span.SpanContext().TraceID())
			}
		})
	}
}

// TestContexts: what the plugin does is below the span of its extension point.
func TestContexts(t *testing.T) {
	t.Parallel()
	_, tracer := newRecorder(sdktrace.AlwaysSample())
	plugin := &simple{}
	run(t.Context(), Around(plugin, tracer, "default").(Plugin), framework.NewCycleState(), podNamed("p"), true)
	require.Equal(t, []string{"PreFilter", "Reserve", "PreBind"}, plugin.within)
}

// TestNotToldOfTheEnd: another plugin fails, and the scheduler does not come back to ours.
func TestNotToldOfTheEnd(t *testing.T) {
	t.Parallel()
	recorder, tracer := newRecorder(sdktrace.AlwaysSample())
	plugin := Around(&simple{}, tracer, "default").(*traced)
	plugin.PreFilter(t.Context(), framework.NewCycleState(), podNamed("p"), nil)
	require.Len(t, recorder.Ended(), 1)
	plugin.PreFilter(t.Context(), framework.NewCycleState(), podNamed("p"), nil)
	require.Equal(t, []string{"Schedule=not told (PreFilter)"}, trees(recorder))
	for i := range maxOpen {
		plugin.PreFilter(t.Context(), framework.NewCycleState(), podNamed(fmt.Sprint(i)), nil)
	}
	require.Len(t, trees(recorder), 2, "no more than so many are kept")
	require.Equal(t, maxOpen, plugin.open.Len())
}

// TestGroups: while a group is tried as a whole, its pods are reserved for a time.
func TestGroups(t *testing.T) {
	t.Parallel()
	recorder, tracer := newRecorder(sdktrace.AlwaysSample())
	plugin := Around(&simple{}, tracer, "default").(Plugin)
	pod, cs := podNamed("p"), framework.NewCycleState()
	cs.SetPodGroupSchedulingCycle(framework.NewCycleState())
	plugin.PreFilter(t.Context(), cs, pod, nil)
	plugin.Reserve(t.Context(), cs, pod, "n0")
	plugin.Unreserve(t.Context(), cs, pod, "n0")
	cs.SetPodGroupSchedulingCycle(nil)
	plugin.Reserve(t.Context(), cs, pod, "n0")
	plugin.PreBind(t.Context(), cs, pod, "n0")
	plugin.PostBind(t.Context(), cs, pod, "n0")
	require.Equal(t, []string{"Schedule=bound (PreFilter, Reserve, Unreserve, Reserve, PreBind (write), PostBind)"}, trees(recorder))
}

// TestOff: without a tracer the plugin is not wrapped, and of attempts that are not sampled nothing is kept.
func TestOff(t *testing.T) {
	plugin := &simple{}
	require.Same(t, plugin, Around(plugin, nil, "default"))
	recorder, tracer := newRecorder(sdktrace.NeverSample())
	wrapped := Around(plugin, tracer, "default").(*traced)
	cs, pod := framework.NewCycleState(), podNamed("p")
	run(t.Context(), wrapped, cs, pod, true)
	require.Empty(t, recorder.Ended())
	require.Zero(t, wrapped.open.Len())
	info := framework.NewNodeInfo()
	info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}})
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() { wrapped.Filter(ctx, cs, pod, info) }))
}
