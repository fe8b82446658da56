package harness

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// metricsReader is the identity of who reads metrics: a service account with the
// right to do that and no other.
const metricsReader = "metrics-reader"

// Metrics are the samples of a scheduler, by name and labels as they are printed:
// scheduler_pending_pods{queue="active"}, or go_goroutines.
type Metrics map[string]float64

// Sum adds up the samples of a metric that have all the labels, each given as
// label="value".
func (m Metrics) Sum(name string, labels ...string) float64 {
	total := m[name]
next:
	for sample, value := range m {
		if !strings.HasPrefix(sample, name+"{") {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(sample, label) {
				continue next
			}
		}
		total += value
	}
	return total
}

// Queued is the number of pods in a queue of the scheduler.
func (m Metrics) Queued(queue string) int {
	return int(m.Sum("scheduler_pending_pods", fmt.Sprintf("queue=%q", queue)))
}

// Attempts is how often the scheduler has tried to schedule pods, by result.
func (m Metrics) Attempts(result string) int {
	return int(m.Sum("scheduler_schedule_attempts_total", fmt.Sprintf("result=%q", result)))
}

// ReadMetrics asks the scheduler's secure port, which authenticates and
// authorises the caller through the API server. The API server learns of new
// rights with a delay, so that the first calls may be refused.
func (s *Scheduler) ReadMetrics(ctx context.Context) (Metrics, error) {
	token, err := s.cluster.metrics.get(ctx, s.cluster.Client)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.Address()+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	// The scheduler makes itself a certificate that nobody knows.
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", request.URL, response.Status)
	}
	samples := Metrics{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		end := strings.LastIndexByte(lines.Text(), ' ')
		if strings.HasPrefix(lines.Text(), "#") || end < 0 {
			continue
		}
		number, err := strconv.ParseFloat(lines.Text()[end+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", lines.Text(), err)
		}
		samples[lines.Text()[:end]] = number
	}
	return samples, lines.Err()
}

// metricsAccount is the identity that reads metrics. It is made when it is needed first.
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
