package kueue

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// jobSetLabel names the JobSet of a pod.
const jobSetLabel = "jobset.sigs.k8s.io/jobset-name"

var (
	jobSetAPI = schema.GroupVersion{Group: "jobset.x-k8s.io", Version: "v1alpha2"}
	// jobSets is the controller of JobSets.
	jobSets = component{
		name: "jobset", module: "sigs.k8s.io/jobset",
		groups: []any{"", jobSetAPI.Group},
		pods: map[string]any{"objectSelector": map[string]any{
			"matchExpressions": []any{map[string]any{"key": jobSetLabel, "operator": "Exists"}},
		}},
	}
)

// jobSet is a JobSet with three pods in two Jobs: name, namespace and scheduler.
const jobSet = `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: %[1]s
  namespace: %[2]s
  labels: {` + queueLabel + `: ` + queue + `}
spec:
  replicatedJobs:
  - name: leader
    template: {spec: {parallelism: 1, completions: 1, template: &pod {
      metadata: {
        labels: {` + v1alpha1.PodGroupLabel + `: %[1]s},
        annotations: {` + endsAfter + `: 24h},
      },
      spec: {
        schedulerName: %[3]s, restartPolicy: Never,
        resourceClaims: [{name: gpu, resourceClaimTemplateName: ` + template + `}],
        containers: [{name: main, image: none, resources: {requests: {cpu: 100m}, claims: [{name: gpu}]}}],
      },
    }}}
  - name: workers
    template: {spec: {parallelism: 2, completions: 2, template: *pod}}
`

// jobSetConfiguration returns the configuration file of the controller of JobSets.
func jobSetConfiguration(webhook, health *net.TCPAddr, certificates string) map[string]any {
	return map[string]any{
		"apiVersion":             "config.jobset.x-k8s.io/v1alpha1",
		"kind":                   "Configuration",
		"health":                 map[string]any{"healthProbeBindAddress": health.String()},
		"metrics":                map[string]any{"bindAddress": "0"},
		"webhook":                map[string]any{"host": webhook.IP.String(), "port": webhook.Port, "certDir": certificates},
		"leaderElection":         map[string]any{"leaderElect": false},
		"internalCertManagement": map[string]any{"enable": false},
	}
}

// testJobSets: Kueue admits a JobSet whole, and a PodGroup has the pods of its Jobs start whole. Another JobSet waits for the quota.
func testJobSets(t *testing.T) {
	s := newSpace(t, "jobsets", queueOptions{quota: 4}, 2, 2)
	s.outsider("outsider", 2)
	s.jobSet("first")
	s.says("first", "Admitted", "True", "Admitted")
	s.waits("first", 3, "2 of 3 pods fit")
	s.gone("outsider")
	s.runs("first", 3)
	s.jobSet("second")
	s.says("second", "QuotaReserved", "False", "Pending", "insufficient unused quota for "+quotaName)
	s.finishJobSet("first")
	s.runs("second", 3)
}

// jobSet creates a JobSet and a PodGroup of its pods.
func (s *space) jobSet(name string) {
	s.T.Helper()
	s.Create(&v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PodGroupSpec{MinMember: 3}})
	apply(s.T, fmt.Appendf(nil, jobSet, name, s.Name, s.Profile))
}

// finishJobSet has all pods of a JobSet succeed, and waits until the JobSet has.
func (s *space) finishJobSet(name string) {
	s.T.Helper()
	s.Eventually("finish JobSet "+name, func(ctx context.Context) error {
		found, err := cluster.Resources(s.T, jobSetAPI.WithKind("JobSet"), s.Name).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if status, _, _ := harness.Condition(found, "Completed"); status == "True" {
			return nil
		}
		errs := []error{errors.New("it is not completed")}
		for _, pod := range s.podsOf(name) {
			errs = append(errs, s.succeed(ctx, pod.Name))
		}
		return errors.Join(errs...)
	})
}
