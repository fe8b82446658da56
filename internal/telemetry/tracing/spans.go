package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the instrumentation scope of all spans.
const Scope = "github.com/quartermaster-dra/quartermaster"

// Span is a span that is being recorded. The methods of the zero value do nothing.
type Span struct{ span trace.Span }

// Start starts a span below the one in the context, if that one is being recorded. Otherwise it returns the given
// context, and allocates nothing.
func Start(ctx context.Context, name string) (context.Context, Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, Span{}
	}
	ctx, span := parent.TracerProvider().Tracer(Scope).Start(ctx, name)
	return ctx, Span{span}
}

// Recorded reports whether the span is recorded; check it before computing costly attributes.
func (s Span) Recorded() bool { return s.span != nil }

// Set adds an attribute.
func (s Span) Set(key, value string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String(key, value))
	}
}

// End ends the span; an error marks it as failed.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, err.Error())
	}
	s.span.End()
}
