package timing

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"

	"github.com/quartermaster-dra/quartermaster/pkg/plugins/quartermaster"
)

// fakePlugin answers some calls, so that it can be told whether they arrive.
type fakePlugin struct {
	devicePlugin
	filtered []string
}

func (p *fakePlugin) Name() string { return "Inner" }

func (p *fakePlugin) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	p.filtered = append(p.filtered, pod.Name)
	return fwk.NewStatus(fwk.Unschedulable, "no")
}

func (p *fakePlugin) PreBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	if pod.Name == "refused" {
		return fwk.NewStatus(fwk.Error, "refused")
	}
	return nil
}

func (p *fakePlugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }
func (p *fakePlugin) ScoreExtensions() fwk.ScoreExtensions         { return nil }

// preScoring is a plugin with an extension point that no wrapper forwards.
type preScoring struct{ fakePlugin }

func (p *preScoring) PreScore(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) *fwk.Status {
	return nil
}

func podIn(namespace, name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// The scheduler must not see a difference between a plugin and its wrapper.
func TestBothPluginsCanBeWrapped(t *testing.T) {
	for _, plugin := range []fwk.Plugin{&dynamicresources.DynamicResources{}, &quartermaster.Quartermaster{}} {
		wrapped, err := wrap("Name", NewRecorder("n"), plugin)
		require.NoError(t, err)
		require.Equal(t, "Name", wrapped.Name())
		for _, extension := range extensionInterfaces {
			require.Equal(t, implements(plugin, extension), implements(wrapped, extension), "%T: %s", plugin, extension.Name())
		}
	}
}

func TestWrapRefusesWhatItDoesNotForward(t *testing.T) {
	_, err := wrap("Name", NewRecorder("n"), &preScoring{})
	require.ErrorContains(t, err, "implements PreScorePlugin, its wrapper does not")
	_, err = wrap("Name", NewRecorder("n"), struct{ fwk.ReservePlugin }{})
	require.ErrorContains(t, err, "lacks interfaces that a device plugin has: PreEnqueuePlugin")
}

func TestRecorderCountsThePodsOfItsNamespace(t *testing.T) {
	recorder := NewRecorder("measured")
	inner := &fakePlugin{}
	wrapped, err := wrap("Name", recorder, inner)
	require.NoError(t, err)
	for _, pod := range []*v1.Pod{podIn("measured", "a"), podIn("elsewhere", "b"), podIn("measured", "c")} {
		status := wrapped.(fwk.FilterPlugin).Filter(t.Context(), nil, pod, nil)
		require.Equal(t, "no", status.Message())
	}
	require.Equal(t, []string{"a", "b", "c"}, inner.filtered)
	totals := recorder.Totals()
	require.EqualValues(t, 2, totals.Filter.Calls)
	require.Equal(t, totals.Filter.Time, totals.Plugin(), "only Filter was called")
}

func TestRecorderCountsPodsWhoseClaimsAreWritten(t *testing.T) {
	recorder := NewRecorder("measured")
	wrapped, err := wrap("Name", recorder, &fakePlugin{})
	require.NoError(t, err)
	for _, pod := range []*v1.Pod{podIn("measured", "a"), podIn("measured", "refused"), podIn("elsewhere", "a")} {
		wrapped.(fwk.PreBindPlugin).PreBind(t.Context(), nil, pod, "node")
	}
	require.EqualValues(t, 1, recorder.Totals().Committed)
}

// ownPlugin has the extension points of ours, and answers those of the cycle.
type ownPlugin struct {
	fakePlugin
	fwk.PodGroupPostFilterPlugin
	morePoints
}

func (p *ownPlugin) Name() string                                    { return "Inner" }
func (p *ownPlugin) PreEnqueue(context.Context, *v1.Pod) *fwk.Status { return nil }

func (p *ownPlugin) PostFilter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	return nil, nil
}

func (p *ownPlugin) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, nil
}

func (p *ownPlugin) PreScore(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) *fwk.Status {
	return nil
}

func (p *ownPlugin) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	return nil
}

// What is not timed would make the plugin that has it look better than it is.
func TestThePluginsTimeIsThatOfItsWholeCycle(t *testing.T) {
	recorder := NewRecorder("measured")
	wrapped, err := wrap("Name", recorder, &ownPlugin{})
	require.NoError(t, err)
	pod := podIn("measured", "a")
	wrapped.(fwk.PostFilterPlugin).PostFilter(t.Context(), nil, pod, nil)
	wrapped.(fwk.PreScorePlugin).PreScore(t.Context(), nil, pod, nil)
	wrapped.(fwk.ReservePlugin).Reserve(t.Context(), nil, pod, "node")
	totals := recorder.Totals()
	for _, point := range []Total{totals.PostFilter, totals.PreScore, totals.Reserve} {
		require.EqualValues(t, 1, point.Calls)
		require.Positive(t, point.Time)
	}
	require.Equal(t, totals.PostFilter.Time+totals.PreScore.Time+totals.Reserve.Time, totals.Plugin())
}

func TestTheFirstPodOfTheNamespaceStartsTheMeasurement(t *testing.T) {
	recorder := NewRecorder("measured")
	started := 0
	recorder.OnFirst(func() { started++ })
	wrapped, err := wrap("Name", recorder, &ownPlugin{})
	require.NoError(t, err)
	enqueue := wrapped.(fwk.PreEnqueuePlugin)
	enqueue.PreEnqueue(t.Context(), podIn("elsewhere", "a"))
	require.Zero(t, started)
	enqueue.PreEnqueue(t.Context(), podIn("measured", "b"))
	enqueue.PreEnqueue(t.Context(), podIn("measured", "c"))
	require.Equal(t, 1, started)
	require.Zero(t, recorder.Totals().Elapsed, "no claim has been written yet")
	wrapped.(fwk.PreBindPlugin).PreBind(t.Context(), nil, podIn("measured", "b"), "node")
	require.Positive(t, recorder.Totals().Elapsed)
}

func TestAbsentExtensionsStayAbsent(t *testing.T) {
	wrapped, err := wrap("Name", NewRecorder("n"), &fakePlugin{})
	require.NoError(t, err)
	require.Nil(t, wrapped.(fwk.PreFilterPlugin).PreFilterExtensions())
	require.Nil(t, wrapped.(fwk.ScorePlugin).ScoreExtensions())
}

func TestSpan(t *testing.T) {
	recorder := NewRecorder("measured")
	wrapped, err := wrap("Name", recorder, &ownPlugin{})
	require.NoError(t, err)
	enqueue, try, reserve := wrapped.(fwk.PreEnqueuePlugin), wrapped.(fwk.PreFilterPlugin), wrapped.(fwk.ReservePlugin)
	pod, other := podIn("measured", "a"), podIn("elsewhere", "b")

	enqueue.PreEnqueue(t.Context(), pod)
	ready := recorder.Span().Ready
	require.False(t, ready.IsZero())
	enqueue.PreEnqueue(t.Context(), other)
	require.Equal(t, Span{Ready: ready}, recorder.Span(), "pods of other namespaces are not measured")

	try.PreFilter(t.Context(), nil, pod, nil)
	tried := recorder.Span().Tried
	require.True(t, tried.After(ready))
	enqueue.PreEnqueue(t.Context(), pod)
	try.PreFilter(t.Context(), nil, pod, nil)
	require.Equal(t, Span{Ready: ready, Tried: tried}, recorder.Span(), "the first attempt counts")

	reserve.Reserve(t.Context(), nil, pod, "node")
	first := recorder.Span().Reserved
	reserve.Reserve(t.Context(), nil, pod, "node")
	require.True(t, recorder.Span().Reserved.After(first), "the last one counts")
	recorder.Restart()
	require.Zero(t, recorder.Span())
}
