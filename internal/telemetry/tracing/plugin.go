package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/lru"
)

// Plugin has the extension points of this project's plugin.
type Plugin interface {
	fwk.PreEnqueuePlugin
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.PostFilterPlugin
	fwk.PodGroupPostFilterPlugin
	fwk.PreScorePlugin
	fwk.ScorePlugin
	fwk.ReservePlugin
	fwk.PermitPlugin
	fwk.PreBindPlugin
	fwk.PostBindPlugin
	fwk.EnqueueExtensions
	fwk.SignPlugin
}

// maxOpen limits the open attempts. If another plugin fails, the plugin does not learn the end of the attempt: it
// stays open until the pod's next attempt, or until the limit is reached.
const maxOpen = 1024

// Around returns the plugin with spans around its calls; without a tracer it is the plugin itself.
func Around(plugin Plugin, tracer trace.Tracer, profile string) fwk.Plugin {
	if tracer == nil {
		return plugin
	}
	return &traced{
		Plugin: plugin, tracer: tracer, profile: profile, key: fwk.StateKey(plugin.Name() + ".Trace"),
		open: lru.NewWithEvictionFunc(maxOpen, func(_ lru.Key, value any) { value.(*attempt).end(outcomeOpen, nil) }),
	}
}

// traced is a plugin with spans. Methods that it does not override are not traced: they are called for each pod in
// the queue (PreEnqueue, SignPod), or only read state.
type traced struct {
	Plugin
	tracer  trace.Tracer
	profile string
	key     fwk.StateKey
	// open has the unfinished attempts, by the UID of the pod.
	open *lru.Cache
}

// The outcomes of attempts.
const (
	outcomeBound      = "bound"
	outcomeUnreserved = "unreserved"
	outcomeUnfit      = "no node"
	outcomeFailed     = "failed"
	// outcomeOpen means that the plugin did not learn the end of the attempt.
	outcomeOpen = "not told"
)

// of returns the attempt of a cycle, nil if it is not recorded.
func (t *traced) of(cs fwk.CycleState) *attempt {
	data, err := cs.Read(t.key)
	if err != nil {
		return nil
	}
	a, _ := data.(*attempt)
	return a
}

// begin starts an attempt; nil if it is not recorded. The attempts of a group's dry runs are children of the group's
// span.
func (t *traced) begin(ctx context.Context, pod *v1.Pod, nodes int) *attempt {
	_, root := t.tracer.Start(ctx, "Schedule")
	if !root.IsRecording() {
		return nil
	}
	root.SetAttributes(
		attribute.String("k8s.namespace.name", pod.Namespace), attribute.String("k8s.pod.name", pod.Name), attribute.String("k8s.pod.uid", string(pod.UID)),
		attribute.String("scheduler", t.profile), attribute.Int("claims", len(pod.Spec.ResourceClaims)), attribute.Int("nodes", nodes))
	return &attempt{tracer: t.tracer, root: root}
}

// end ends an attempt.
func (t *traced) end(a *attempt, pod *v1.Pod, outcome string, status *fwk.Status) {
	if a == nil {
		return
	}
	a.end(outcome, status)
	if known, has := t.open.Get(pod.UID); has && known == a {
		t.open.Remove(pod.UID)
	}
}

// PreFilter implements fwk.PreFilterPlugin. Pods that the plugin skips leave no trace.
func (t *traced) PreFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	a := t.begin(ctx, pod, len(nodes))
	if a == nil {
		return t.Plugin.PreFilter(ctx, cs, pod, nodes)
	}
	ctx, span := a.start(ctx, "PreFilter")
	result, status := t.Plugin.PreFilter(ctx, cs, pod, nodes)
	if status.IsSkip() {
		return result, status // An unfinished span is not sent.
	}
	if result != nil && !result.AllNodes() {
		span.SetAttributes(attribute.Int("nodes", result.NodeNames.Len()))
	}
	a.done(span, status)
	cs.Write(t.key, a)
	if before, has := t.open.Get(pod.UID); has {
		before.(*attempt).end(outcomeOpen, nil)
	}
	t.open.Add(pod.UID, a)
	if !status.IsSuccess() && !status.IsRejected() {
		t.end(a, pod, outcomeFailed, status) // Only rejected pods reach PostFilter.
	}
	return result, status
}

// Filter implements fwk.FilterPlugin.
func (t *traced) Filter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	a := t.of(cs)
	begin := time.Now()
	status := t.Plugin.Filter(ctx, cs, pod, node)
	a.filtered(begin, status)
	return status
}

// PostFilter implements fwk.PostFilterPlugin.
func (t *traced) PostFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	a := t.of(cs)
	ctx, span := a.start(ctx, "PostFilter")
	result, status := t.Plugin.PostFilter(ctx, cs, pod, statuses)
	a.flush("Filter again", span) // Dry runs of preemption, and nodes that were left out.
	if result != nil && result.NominatingInfo != nil && result.NominatedNodeName != "" {
		span.SetAttributes(attribute.String("nominated", result.NominatedNodeName))
	}
	a.done(span, status)
	t.end(a, pod, outcomeUnfit, status)
	return result, status
}

// PreScore implements fwk.PreScorePlugin.
func (t *traced) PreScore(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	a := t.of(cs)
	ctx, span := a.start(ctx, "PreScore", attribute.Int("nodes", len(nodes)))
	status := t.Plugin.PreScore(ctx, cs, pod, nodes)
	a.done(span, status)
	return status
}

// Score implements fwk.ScorePlugin.
func (t *traced) Score(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	a := t.of(cs)
	begin := time.Now()
	score, status := t.Plugin.Score(ctx, cs, pod, node)
	a.scored(begin, status)
	return score, status
}

// ScoreExtensions implements fwk.ScorePlugin.
func (t *traced) ScoreExtensions() fwk.ScoreExtensions { return t }

// NormalizeScore implements fwk.ScoreExtensions.
func (t *traced) NormalizeScore(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	a := t.of(cs)
	ctx, span := a.start(ctx, "NormalizeScore")
	status := t.Plugin.ScoreExtensions().NormalizeScore(ctx, cs, pod, scores)
	a.done(span, status)
	return status
}
