package tracing

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	tracingapi "k8s.io/component-base/tracing/api/v1"
	"k8s.io/utils/ptr"
)

// TestNothingWanted: where there is no span, there is no other below it, and that costs nothing.
func TestNothingWanted(t *testing.T) {
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		within, span := Start(ctx, "write")
		span.Set("claim", "c")
		span.End(nil)
		if within != ctx || span.Recorded() {
			t.Error("there is a span")
		}
	}))
	unsampled, _ := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())).Tracer("").Start(ctx, "parent")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, span := Start(unsampled, "write")
		span.End(nil)
	}))
}

func TestChildren(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	ctx, parent := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("").Start(t.Context(), "parent")
	within, span := Start(ctx, "write")
	require.True(t, span.Recorded())
	span.Set("claim", "c")
	_, inner := Start(within, "inner")
	inner.End(errors.New("failed"))
	span.End(nil)
	parent.End()
	ended := recorder.Ended()
	require.Len(t, ended, 3)
	require.Equal(t, "inner", ended[0].Name())
	require.Equal(t, codes.Error, ended[0].Status().Code)
	require.Equal(t, "failed", ended[0].Status().Description)
	require.Equal(t, ended[1].SpanContext().SpanID(), ended[0].Parent().SpanID())
	require.Equal(t, parent.SpanContext().SpanID(), ended[1].Parent().SpanID())
	require.Equal(t, "c", ended[1].Attributes()[0].Value.AsString())
}

// collected is a collector that records its requests.
type collected struct {
	collector.UnimplementedTraceServiceServer
	requests chan *collector.ExportTraceServiceRequest
}

func (c *collected) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.requests <- request
	return &collector.ExportTraceServiceResponse{}, nil
}

// TestCollector has spans sent over OTLP, at the latest when the scheduler ends.
func TestCollector(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, got := grpc.NewServer(), &collected{requests: make(chan *collector.ExportTraceServiceRequest, 1)}
	collector.RegisterTraceServiceServer(server, got)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	ctx, stop := context.WithCancel(t.Context())
	tracer, err := NewTracer(ctx, &tracingapi.TracingConfiguration{Endpoint: ptr.To(listener.Addr().String()), SamplingRatePerMillion: ptr.To[int32](1_000_000)})
	require.NoError(t, err)
	_, span := tracer.Start(ctx, "Schedule")
	span.End()
	stop()
	select {
	case request := <-got.requests:
		spans := request.ResourceSpans[0]
		require.Equal(t, "service.name", spans.Resource.Attributes[0].Key)
		require.Equal(t, ServiceName, spans.Resource.Attributes[0].Value.GetStringValue())
		require.Equal(t, "Schedule", spans.ScopeSpans[0].Spans[0].Name)
		require.Equal(t, Scope, spans.ScopeSpans[0].Scope.Name)
	case <-time.After(3 * time.Minute):
		t.Fatal("the collector got nothing")
	}
}

// TestWithoutRate: as in other components of Kubernetes, there are no spans unless their caller has some.
func TestWithoutRate(t *testing.T) {
	t.Parallel()
	for _, config := range []*tracingapi.TracingConfiguration{nil, {}, {Endpoint: ptr.To("localhost:1")}, {SamplingRatePerMillion: ptr.To[int32](0)}} {
		tracer, err := NewTracer(t.Context(), config)
		require.NoError(t, err)
		require.Nil(t, tracer)
	}
}
