package tracing

import (
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// BenchmarkFilter measures the overhead of a call for one node, with a plugin that does nothing.
func BenchmarkFilter(b *testing.B) {
	info := framework.NewNodeInfo()
	info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}})
	for name, tracer := range map[string]trace.Tracer{
		"off": nil, "unsampled": sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())).Tracer(""),
		"sampled": sdktrace.NewTracerProvider().Tracer(""),
	} {
		b.Run(name, func(b *testing.B) {
			plugin, cs, pod := Around(&simple{}, tracer, "default").(Plugin), framework.NewCycleState(), podNamed("p")
			plugin.PreFilter(b.Context(), cs, pod, nil)
			b.ReportAllocs()
			for b.Loop() {
				plugin.Filter(b.Context(), cs, pod, info)
			}
		})
	}
}
