package webhook

import (
	"strconv"
	"sync"
	"time"

	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/quartermaster-dra/quartermaster/internal/guard"
)

// webhookMetrics holds the metrics of the webhook.
type webhookMetrics struct {
	duration *k8smetrics.HistogramVec
	failures *k8smetrics.CounterVec
	closed   *k8smetrics.Counter
	once     sync.Once
}

const metricsSubsystem = "quartermaster"

var metrics = &webhookMetrics{
	duration: k8smetrics.NewHistogramVec(&k8smetrics.HistogramOpts{
		Subsystem: metricsSubsystem, Name: "guard_review_duration_seconds", StabilityLevel: k8smetrics.ALPHA,
		Help:    "How long requests of API servers took, by whether the claim was to be allocated (allocates) and by answer: allowed, denied, or undecided if this process does not decide.",
		Buckets: k8smetrics.ExponentialBuckets(0.0001, 2, 15),
	}, []string{"allocates", "answer"}),
	failures: k8smetrics.NewCounterVec(&k8smetrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "guard_refused_requests_total", StabilityLevel: k8smetrics.ALPHA,
		Help: "Requests without a decision, by HTTP status: 401 for clients without a certificate by --client-ca-file, other 4xx for requests that are not about a claim's status, 503 if this process does not decide or too many ask.",
	}, []string{"code"}),
	closed: k8smetrics.NewCounter(&k8smetrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "guard_crowded_connections_total", StabilityLevel: k8smetrics.ALPHA,
		Help: "Connections that the guard has closed because there were too many.",
	}),
}

// Register registers the metrics, once.
func Register() {
	metrics.once.Do(func() { legacyregistry.MustRegister(metrics.duration, metrics.failures, metrics.closed) })
}

func (m *webhookMetrics) observe(r *guard.Request, answer guard.Answer, began time.Time) {
	name := map[guard.Kind]string{guard.Allowed: "allowed", guard.Denied: "denied"}[answer.Kind]
	if name == "" {
		name = "undecided"
	}
	m.duration.WithLabelValues(strconv.FormatBool(r.Allocates()), name).Observe(time.Since(began).Seconds())
}

func (m *webhookMetrics) failed(code int) { m.failures.WithLabelValues(strconv.Itoa(code)).Inc() }

func (m *webhookMetrics) crowded() { m.closed.Inc() }
