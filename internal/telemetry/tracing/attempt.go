package tracing

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	fwk "k8s.io/kube-scheduler/framework"
)

// maxMessage limits the bytes of a status message in a span.
const maxMessage = 1024

// attempt is one attempt to schedule a pod. Its root span lasts from PreFilter to the last extension point. It is nil if
// the attempt is not recorded: then its methods do nothing.
type attempt struct {
	tracer trace.Tracer
	root   trace.Span

	mutex sync.Mutex
	// filters and scores are the calls for single nodes that have no span yet.
	filters, scores calls
	// seen is the end of the last extension point.
	seen  time.Time
	ended bool
}

// Clone implements fwk.StateData: dry runs count for their attempt.
func (a *attempt) Clone() fwk.StateData { return a }

// calls sums up calls for nodes, which may be concurrent.
type calls struct {
	first, last time.Time
	// busy is the sum of their durations.
	busy            time.Duration
	count, rejected int
}

func (c *calls) add(begin, end time.Time, status *fwk.Status) {
	if c.count == 0 || begin.Before(c.first) {
		c.first = begin
	}
	if end.After(c.last) {
		c.last = end
	}
	c.busy += end.Sub(begin)
	c.count++
	if !status.IsSuccess() {
		c.rejected++
	}
}

// filtered records a call of Filter, and scored one of Score.
func (a *attempt) filtered(begin time.Time, status *fwk.Status) {
	if a == nil {
		return
	}
	end := time.Now()
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.filters.add(begin, end, status)
}

func (a *attempt) scored(begin time.Time, status *fwk.Status) {
	if a == nil {
		return
	}
	end := time.Now()
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.scores.add(begin, end, status)
}

// flush makes spans of the recorded calls for nodes, below a parent.
func (a *attempt) flush(filter string, parent trace.Span) {
	if a == nil {
		return
	}
	a.mutex.Lock()
	filters, scores := a.filters, a.scores
	a.filters, a.scores = calls{}, calls{}
	a.mutex.Unlock()
	a.span(filter, parent, filters)
	a.span("Score", parent, scores)
}

func (a *attempt) span(name string, parent trace.Span, c calls) {
	if c.count == 0 {
		return
	}
	_, span := a.tracer.Start(trace.ContextWithSpan(context.Background(), parent), name, trace.WithTimestamp(c.first), trace.WithAttributes(
		attribute.Int("nodes", c.count), attribute.Int("rejected", c.rejected), attribute.Float64("busy_seconds", c.busy.Seconds())))
	span.End(trace.WithTimestamp(c.last))
}

// start starts the span of an extension point, after those of earlier calls for nodes.
func (a *attempt) start(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	if a == nil {
		return ctx, noop.Span{}
	}
	a.flush("Filter", a.root)
	return a.tracer.Start(trace.ContextWithSpan(ctx, a.root), name, trace.WithAttributes(attributes...))
}

// done ends the span of an extension point.
func (a *attempt) done(span trace.Span, status *fwk.Status) {
	if a == nil {
		return
	}
	endSpan(span, status)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.seen = time.Now()
}

// end ends the attempt once, at the time of its last call.
func (a *attempt) end(outcome string, status *fwk.Status) {
	a.mutex.Lock()
	ended, at := a.ended, a.seen
	a.ended = true
	if a.filters.last.After(at) {
		at = a.filters.last
	}
	a.mutex.Unlock()
	if ended {
		return
	}
	a.flush("Filter", a.root)
	a.root.SetAttributes(attribute.String("outcome", outcome))
	endSpan(a.root, status, trace.WithTimestamp(at))
}

// endSpan ends a span with a status. Internal errors mark it as failed; rejections of pods or nodes do not.
func endSpan(span trace.Span, status *fwk.Status, options ...trace.SpanEndOption) {
	if span.IsRecording() && !status.IsSuccess() {
		message := status.Message()
		span.SetAttributes(attribute.String("status", status.Code().String()), attribute.String("message", message[:min(len(message), maxMessage)]))
		if status.Code() == fwk.Error {
			span.SetStatus(codes.Error, "")
		}
	}
	span.End(options...)
}
