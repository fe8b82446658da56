package harness

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

// metricsReader is the name of the service account that reads metrics. It has no
// other right.
const metricsReader = "metrics-reader"

// Metrics are the samples of a scheduler.
type Metrics model.Vector

// Samples yields the samples of a metric that have all the labels, given as names and values
// in turn.
func (m Metrics) Samples(name string, labels ...string) iter.Seq[*model.Sample] {
	return func(yield func(*model.Sample) bool) {
		for _, sample := range m {
			fits := string(sample.Metric[model.MetricNameLabel]) == name
			for i := 0; fits && i < len(labels); i += 2 {
				fits = string(sample.Metric[model.LabelName(labels[i])]) == labels[i+1]
			}
			if fits && !yield(sample) {
				return
			}
		}
	}
}

// Sum adds up what Samples yields.
func (m Metrics) Sum(name string, labels ...string) float64 {
	total := 0.0
	for sample := range m.Samples(name, labels...) {
		total += float64(sample.Value)
	}
	return total
}

// Queued returns the number of pods in a queue of the scheduler.
func (m Metrics) Queued(queue string) int {
	return int(m.Sum("scheduler_pending_pods", "queue", queue))
}

// Attempts returns the number of attempts to schedule a pod that had the result.
func (m Metrics) Attempts(result string) int {
	return int(m.Sum("scheduler_schedule_attempts_total", "result", result))
}

// ReadMetrics asks the scheduler's secure port, which authenticates and
// authorises the caller through the API server. The API server learns of new
// rights with a delay, so that the first calls may be refused.
func (s *Scheduler) ReadMetrics(ctx context.Context) (Metrics, error) {
	token, err := s.cluster.metrics.get(ctx, s.cluster.Client)
	if err != nil {
		return nil, err
	}
	return readMetrics(ctx, s.Address(), "Bearer "+token)
}

// ReadGuardMetrics asks a guard's port, which answers everybody.
func ReadGuardMetrics(ctx context.Context, guard *scheduler.Process) (Metrics, error) {
	return readMetrics(ctx, guard.Address(), "")
}

// ReadAPIServerMetrics asks the API server.
func (c *Cluster) ReadAPIServerMetrics(ctx context.Context) (Metrics, error) {
	text, err := c.Client.Discovery().RESTClient().Get().AbsPath("/metrics").Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("metrics of the API server: %w", err)
	}
	return parseMetrics(bytes.NewReader(text))
}

func readMetrics(ctx context.Context, address, authorization string) (Metrics, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	// The process makes itself a certificate that is not known here.
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", request.URL, response.Status)
	}
	metrics, err := parseMetrics(response.Body)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", request.URL, err)
	}
	return metrics, nil
}

func parseMetrics(text io.Reader) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, err
	}
	samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, slices.Collect(maps.Values(families))...)
	return Metrics(samples), err
}

// metricsAccount is the identity that reads metrics. It is made at the first use.
type metricsAccount struct {
	mutex sync.Mutex
	token string
}

func (a *metricsAccount) get(ctx context.Context, client kubernetes.Interface) (string, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.token != "" {
		return a.token, nil
	}
	const namespace = metav1.NamespaceDefault
	meta := metav1.ObjectMeta{Name: metricsReader}
	failed := func(err error) (string, error) {
		return "", fmt.Errorf("make the identity that reads metrics: %w", err)
	}
	account, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	if err != nil {
		return failed(err)
	}
	if _, err = client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: meta,
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{}); err != nil {
		return failed(err)
	}
	if _, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: metricsReader},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account.Name}},
	}, metav1.CreateOptions{}); err != nil {
		return failed(err)
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account.Name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return failed(err)
	}
	a.token = token.Status.Token
	return a.token, nil
}
