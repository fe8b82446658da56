package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// Reserve implements fwk.ReservePlugin.
func (t *traced) Reserve(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	a := t.of(cs)
	ctx, span := a.start(ctx, "Reserve")
	if a != nil {
		a.root.SetAttributes(attribute.String("k8s.node.name", node))
	}
	status := t.Plugin.Reserve(ctx, cs, pod, node)
	a.done(span, status)
	return status
}

// PreBind implements fwk.PreBindPlugin.
func (t *traced) PreBind(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	a := t.of(cs)
	ctx, span := a.start(ctx, "PreBind")
	status := t.Plugin.PreBind(ctx, cs, pod, node)
	a.done(span, status)
	return status
}

// Unreserve implements fwk.ReservePlugin. It ends the attempt, except in a pod group scheduling cycle: if the group
// fits, the pod is reserved again.
func (t *traced) Unreserve(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) {
	a := t.of(cs)
	ctx, span := a.start(ctx, "Unreserve")
	t.Plugin.Unreserve(ctx, cs, pod, node)
	a.done(span, nil)
	if !kube.InPodGroupCycle(cs) {
		t.end(a, pod, outcomeUnreserved, nil)
	}
}

// PostBind implements fwk.PostBindPlugin. It ends the attempt.
func (t *traced) PostBind(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) {
	a := t.of(cs)
	ctx, span := a.start(ctx, "PostBind")
	t.Plugin.PostBind(ctx, cs, pod, node)
	a.done(span, nil)
	t.end(a, pod, outcomeBound, nil)
}

// PodGroupPostFilter implements fwk.PodGroupPostFilterPlugin. It is not part of the attempt of one pod.
func (t *traced) PodGroupPostFilter(ctx context.Context, state fwk.PodGroupCycleState, info fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	ctx, span := t.tracer.Start(ctx, "PodGroupPostFilter")
	if span.IsRecording() {
		span.SetAttributes(attribute.String("k8s.namespace.name", info.GetNamespace()), attribute.String("podgroup", info.GetName()),
			attribute.String("scheduler", t.profile), attribute.Int("unscheduled", len(info.GetUnscheduledPods())))
	}
	result, status := t.Plugin.PodGroupPostFilter(ctx, state, info, schedule)
	endSpan(span, status)
	return result, status
}
