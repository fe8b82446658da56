// Package spans makes OpenTelemetry spans, and costs next to nothing where nobody wants any: a span is begun only
// below one that is being recorded.
package spans

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the instrumentation scope of all spans.
const Scope = "github.com/quartermaster-dra/quartermaster"

// Span is one that is being recorded, or none: the zero value, whose methods do nothing.
type Span struct{ span trace.Span }

// Start begins a span below the one in the context, if that one is being recorded. Otherwise it returns the context
// as it was, and allocates nothing.
func Start(ctx context.Context, name string) (context.Context, Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, Span{}
	}
	ctx, span := parent.TracerProvider().Tracer(Scope).Start(ctx, name)
	return ctx, Span{span}
}

// Recorded reports whether there is a span, for attributes that are costly to find.
func (s Span) Recorded() bool { return s.span != nil }

// Set adds an attribute.
func (s Span) Set(key, value string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String(key, value))
	}
}

// End ends the span, as failed if there is an error.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, err.Error())
	}
	s.span.End()
}
