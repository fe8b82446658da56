package timing

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// devicePlugin is the interface that both plugins that allocate devices implement.
// extensionInterfaces lists the interfaces that the scheduler finds by type assertion.
type devicePlugin interface {
	fwk.PreEnqueuePlugin
	fwk.EnqueueExtensions
	fwk.SignPlugin
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.PostFilterPlugin
	fwk.ScorePlugin
	fwk.ReservePlugin
	fwk.PreBindPlugin
}

// timedPlugin forwards every call to the plugin that it embeds, and adds the times of
// the measured extension points to the recorder.
type timedPlugin struct {
	devicePlugin
	name     string
	recorder *Recorder
}

// timedPodGroupPlugin is a timedPlugin around a plugin that also handles pod groups.
type timedPodGroupPlugin struct {
	*timedPlugin
	fwk.PodGroupPostFilterPlugin
}

// morePoints are the extension points that our plugin has and the in-tree plugin does not.
type morePoints interface {
	fwk.PreScorePlugin
	fwk.PermitPlugin
	fwk.PostBindPlugin
}

// timedOwnPlugin is a timedPodGroupPlugin around a plugin that has morePoints as well.
type timedOwnPlugin struct {
	*timedPodGroupPlugin
	morePoints
}

// Name implements fwk.Plugin. The scheduler looks weights up by this name, so it
// must be the one in the configuration.
func (p *timedPlugin) Name() string { return p.name }

// Name resolves the ambiguity between the two embedded plugins.
func (p *timedPodGroupPlugin) Name() string { return p.name }

// Name resolves the ambiguity between the two embedded plugins.
func (p *timedOwnPlugin) Name() string { return p.name }

// PreEnqueue runs when a pod gets into the queue. The first measured pod starts the
// measurement.
func (p *timedPlugin) PreEnqueue(ctx context.Context, pod *v1.Pod) *fwk.Status {
	p.recorder.enqueued(pod)
	status := p.devicePlugin.PreEnqueue(ctx, pod)
	if status.IsSuccess() {
		p.recorder.ready(pod)
	}
	return status
}

func (p *timedPlugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	start := time.Now()
	p.recorder.tried(pod, start)
	result, status := p.devicePlugin.PreFilter(ctx, state, pod, nodes)
	p.recorder.add(&p.recorder.preFilter, pod, start)
	return result, status
}

func (p *timedPlugin) PreFilterExtensions() fwk.PreFilterExtensions {
	extensions := p.devicePlugin.PreFilterExtensions()
	if extensions == nil {
		return nil
	}
	return timedPreFilterExtensions{extensions: extensions, recorder: p.recorder}
}

func (p *timedPlugin) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	start := time.Now()
	status := p.devicePlugin.Filter(ctx, state, pod, node)
	p.recorder.add(&p.recorder.filter, pod, start)
	return status
}

func (p *timedPlugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	start := time.Now()
	result, status := p.devicePlugin.PostFilter(ctx, state, pod, nodes)
	p.recorder.add(&p.recorder.postFilter, pod, start)
	return result, status
}

// PreScore is timed if the plugin has it.
func (p *timedOwnPlugin) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	start := time.Now()
	status := p.morePoints.PreScore(ctx, state, pod, nodes)
	p.recorder.add(&p.recorder.preScore, pod, start)
	return status
}

func (p *timedPlugin) Score(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	start := time.Now()
	score, status := p.devicePlugin.Score(ctx, state, pod, node)
	p.recorder.add(&p.recorder.score, pod, start)
	return score, status
}

func (p *timedPlugin) ScoreExtensions() fwk.ScoreExtensions {
	extensions := p.devicePlugin.ScoreExtensions()
	if extensions == nil {
		return nil
	}
	return timedScoreExtensions{extensions: extensions, recorder: p.recorder}
}

func (p *timedPlugin) Reserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	start := time.Now()
	status := p.devicePlugin.Reserve(ctx, state, pod, node)
	p.recorder.add(&p.recorder.reserve, pod, start)
	if status.IsSuccess() {
		p.recorder.reserved(pod)
	}
	return status
}

func (p *timedPlugin) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	start := time.Now()
	status := p.devicePlugin.PreBind(ctx, state, pod, node)
	p.recorder.add(&p.recorder.preBind, pod, start)
	if status.IsSuccess() {
		p.recorder.written(pod)
	}
	return status
}

// timedPreFilterExtensions counts as PreFilter, because it keeps the result of PreFilter up to date.
type timedPreFilterExtensions struct {
	extensions fwk.PreFilterExtensions
	recorder   *Recorder
}

func (e timedPreFilterExtensions) AddPod(ctx context.Context, state fwk.CycleState, pod *v1.Pod, added fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	start := time.Now()
	status := e.extensions.AddPod(ctx, state, pod, added, node)
	e.recorder.add(&e.recorder.preFilterExtensions, pod, start)
	return status
}

func (e timedPreFilterExtensions) RemovePod(ctx context.Context, state fwk.CycleState, pod *v1.Pod, removed fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	start := time.Now()
	status := e.extensions.RemovePod(ctx, state, pod, removed, node)
	e.recorder.add(&e.recorder.preFilterExtensions, pod, start)
	return status
}

type timedScoreExtensions struct {
	extensions fwk.ScoreExtensions
	recorder   *Recorder
}

func (e timedScoreExtensions) NormalizeScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	start := time.Now()
	status := e.extensions.NormalizeScore(ctx, state, pod, scores)
	e.recorder.add(&e.recorder.normalizeScore, pod, start)
	return status
}
