package kueue

import (
	"context"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// testFragmented: Kueue admits a job of a pod that wants two devices on one node, although only one is free on each node. The pod
// says so, and Kueue takes the job back, and tries again until a node has two.
func testFragmented(t *testing.T) {
	s := newSpace(t, "fragmented", queueOptions{quota: 2}, 2, 2)
	s.outsider("one", 1, s.onNode(0))
	s.outsider("another", 1, s.onNode(1))
	s.Create(builder.Claim("two", want(2)).Template())
	s.job("job", 1, usingTemplate("two"))
	s.waits("job", 1, "held by")
	s.says("job", "Evicted", "True", "PodsReadyTimeout", "Exceeded the PodsReady timeout")
	s.requeued("job", 2)
	s.gone("one")
	s.runs("job", 1)
	s.says("job", "PodsReady", "True", "Started")
}

// testGangTakenBack: a gang that is admitted but does not fit holds nothing, so that Kueue can give its turn to another job.
func testGangTakenBack(t *testing.T) {
	s := newSpace(t, "taken-back", queueOptions{quota: 2}, 1, 1)
	s.outsider("outsider", 1)
	s.Create(&v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "gang"}, Spec: v1alpha1.PodGroupSpec{MinMember: 2}})
	s.job("gang", 2, func(job *batchv1.Job) { job.Spec.Template.Labels[v1alpha1.PodGroupLabel] = "gang" })
	s.waits("gang", 2, "1 of 2 pods fit")
	s.job("single", 1)
	s.says("gang", "Evicted", "True", "PodsReadyTimeout")
	s.runs("single", 1)
	s.finish("single")
	s.gone("outsider")
	s.runs("gang", 2)
}

// requeued waits until Kueue has put a job back into the queue that often because its pods were not ready.
func (s *space) requeued(job string, times int64) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("requeue job %s %d times", job, times), func(ctx context.Context) error {
		found, err := s.workload(ctx, job)
		if err != nil {
			return err
		}
		if count, _, _ := unstructured.NestedInt64(found.Object, "status", "requeueState", "count"); count < times {
			return fmt.Errorf("it was requeued %d times", count)
		}
		return nil
	})
}
