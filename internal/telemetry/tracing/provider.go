package tracing

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/component-base/tracing"
	tracingapi "k8s.io/component-base/tracing/api/v1"
	"k8s.io/klog/v2"
)

// ServiceName is the resource attribute service.name of all spans.
const ServiceName = "quartermaster"

// flushTimeout limits the time for sending the remaining spans when the scheduler ends.
const flushTimeout = 5 * time.Second

// Wanted reports whether any span would be recorded. Without a rate none is, because attempts to schedule a pod have
// no caller whose spans decide about sampling.
func Wanted(config *tracingapi.TracingConfiguration) bool {
	return config != nil && config.SamplingRatePerMillion != nil && *config.SamplingRatePerMillion > 0
}

// NewTracer returns a tracer that sends spans to a collector until the context ends, or nil if none are wanted. It
// does not wait for the collector, which may come and go.
func NewTracer(ctx context.Context, config *tracingapi.TracingConfiguration) (trace.Tracer, error) {
	if !Wanted(config) {
		return nil, nil
	}
	provider, err := tracing.NewProvider(ctx, config, nil, []resource.Option{resource.WithAttributes(attribute.String("service.name", ServiceName))})
	if err != nil {
		return nil, fmt.Errorf("send spans to a collector: %w", err)
	}
	context.AfterFunc(ctx, func() {
		flushing, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		if err := provider.Shutdown(flushing); err != nil {
			klog.FromContext(ctx).V(2).Info("The last spans were not sent", "err", err)
		}
	})
	return provider.Tracer(Scope), nil
}
