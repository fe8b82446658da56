package integration

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// metricsReader is the identity of who reads metrics: a service account with the
// right to do that and no other.
const metricsReader = "metrics-reader"

// metrics are the samples of a scheduler, by name and labels as they are printed:
// scheduler_pending_pods{queue="active"}.
type metrics map[string]float64

// sum adds up the samples of a metric that have all the labels, each given as
// label="value".
func (m metrics) sum(name string, labels ...string) int {
	total := 0.0
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
	return int(total)
}

// queued is the number of pods in a queue of the scheduler.
func (m metrics) queued(queue string) int {
	return m.sum("scheduler_pending_pods", fmt.Sprintf("queue=%q", queue))
}

// attempts is how often the scheduler has tried to schedule pods, by result.
func (m metrics) attempts(result string) int {
	return m.sum("scheduler_schedule_attempts_total", fmt.Sprintf("result=%q", result))
}

// readMetrics asks the scheduler's secure port, which authenticates and
// authorises the caller through the API server. The API server learns of new
// rights with a delay, so that the first calls may be refused.
func readMetrics(t *testing.T, scheduler *scheduler) (metrics, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+scheduler.process.Address()+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+metricsToken(t))
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
	samples := metrics{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		sample, value, found := strings.Cut(lines.Text(), "} ")
		if strings.HasPrefix(sample, "#") || !found {
			continue // A comment, or a metric without labels.
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", lines.Text(), err)
		}
		samples[sample+"}"] = number
	}
	return samples, lines.Err()
}

var metricsAccount struct {
	sync.Once
	token string
}

// metricsToken creates the identity when it is needed first.
func metricsToken(t *testing.T) string {
	t.Helper()
	metricsAccount.Do(func() {
		const namespace = metav1.NamespaceDefault
		meta := metav1.ObjectMeta{Name: metricsReader}
		account, err := cluster.client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = cluster.client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
			ObjectMeta: meta,
			Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = cluster.client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: metricsReader},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account.Name}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		token, err := cluster.client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account.Name,
			&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		require.NoError(t, err)
		metricsAccount.token = token.Status.Token
	})
	require.NotEmpty(t, metricsAccount.token, "the identity that reads metrics could not be made")
	return metricsAccount.token
}
