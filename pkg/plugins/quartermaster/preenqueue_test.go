package quartermaster

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/queue"
)

func deleting(claim *resourceapi.ResourceClaim) {
	now := metav1.Now()
	claim.DeletionTimestamp, claim.Finalizers = &now, []string{resourceapi.Finalizer}
}

// TestFailingMembersPause: kube-scheduler queues a pod of a PodGroup at once after an error, and one without a PodGroup after its
// back-off. A pod that fails for long is kept out, and activated after its pause.
func TestFailingMembersPause(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*v1.Pod){"member": member, "alone": func(*v1.Pod) {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(gpuNodes(1, "n1"), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
				f.pl.features.EnableGenericWorkload = true
				pod := newPod("p", uses("c"), edit)
				f.arrive(pod)
				tries := 0
				for ; tries < 30 && f.pl.PreEnqueue(f.ctx, pod).IsSuccess(); tries++ {
					f.fail(fault{on: "update/status", claim: "c", err: forbidden()})
					require.Equal(t, "PreBind", f.schedule(pod).phase)
				}
				if name == "alone" {
					require.Equal(t, 30, tries)
					return
				}
				require.InDelta(t, 10, tries, 1, "it is tried at once at first")
				f.forget()
				time.Sleep(queue.LongestPause + time.Second) // To a full second.
				f.settle()
				require.Equal(t, []string{"default/p"}, f.names())
				require.Empty(t, f.schedule(pod).phase)
			})
		})
	}
}

// TestPreEnqueue also covers PreFilter, which finds the same: a claim can
// disappear while the pod is in the queue.
func TestPreEnqueue(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		claims []runtime.Object
		pod    *v1.Pod
		want   string // part of the reason, "" if the pod may pass
	}{
		"no claims":     {pod: newPod("p")},
		"named claim":   {pod: newPod("p", uses("c")), claims: []runtime.Object{gpus("c", 1).Obj()}},
		"missing claim": {pod: newPod("p", uses("c")), want: "claim default/c (by-name-c in the pod) does not exist"},
		"one missing":   {pod: newPod("p", uses("c"), uses("d")), claims: []runtime.Object{gpus("c", 1).Obj()}, want: "claim default/d"},
		"other's of name": {
			// Somebody else's claim is found by name: it exists, and that is enough.
			pod: newPod("p", uses("c")), claims: []runtime.Object{with(gpus("c", 1).Obj(), ownedBy("q"))},
		},
		"other namespace": {
			pod: newPod("p", uses("c")), claims: []runtime.Object{gpus("c", 1).In("elsewhere").Obj()},
			want: "claim default/c",
		},
		"being deleted": {
			pod: newPod("p", uses("c")), claims: []runtime.Object{with(gpus("c", 1).Obj(), deleting)},
			want: "claim default/c is being deleted",
		},
		"template, not made": {
			pod:  newPod("p", template("gpu")),
			want: "claim for gpu in the pod has not been created yet; waiting for it to be made from template default/template-gpu",
		},
		"template, made": {
			pod: newPod("p", template("gpu"), made("gpu", "p-gpu")), claims: []runtime.Object{with(gpus("p-gpu", 1).Obj(), ownedBy("p"))},
		},
		"template, made but not seen": {
			pod: newPod("p", template("gpu"), made("gpu", "p-gpu")), want: "claim default/p-gpu (gpu in the pod) does not exist; waiting for another one to be made from template default/template-gpu (delete the pod if this lasts)",
		},
		"template, not needed": {pod: newPod("p", template("gpu"), made("gpu", ""))},
		"template, other owner": {
			pod: newPod("p", template("gpu"), made("gpu", "p-gpu")), claims: []runtime.Object{with(gpus("p-gpu", 1).Obj(), ownedBy("q"))},
			want: "claim default/p-gpu cannot be used: ",
		},
		"by name and of template, other owner": {
			pod:    newPod("p", uses("p-gpu"), template("gpu"), made("gpu", "p-gpu")),
			claims: []runtime.Object{with(gpus("p-gpu", 1).Obj(), ownedBy("q"))},
			want:   "claim default/p-gpu cannot be used: ",
		},
		"template, no owner": {
			pod: newPod("p", template("gpu"), made("gpu", "p-gpu")), claims: []runtime.Object{gpus("p-gpu", 1).Obj()},
			want: "claim default/p-gpu cannot be used: ",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(gpuNodes(1, "n1"), test.claims...), func(t *testing.T, f *fixture) {
				status := f.pl.PreEnqueue(f.ctx, test.pod)
				_, preFilter := f.begin(test.pod)
				if test.want == "" {
					require.True(t, status.IsSuccess(), "%v", status)
					require.True(t, preFilter.IsSuccess(), "%v", preFilter)
					return
				}
				require.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
				require.Contains(t, status.Message(), test.want)
				require.Equal(t, status.Code(), preFilter.Code())
				require.Equal(t, status.Message(), preFilter.Message())
			})
		})
	}
}

// If the API server has no claims, the message must not say that the pod waits for one.
func TestPreEnqueueWithoutClaimAPI(t *testing.T) {
	t.Parallel()
	inCluster(t, gpuNodes(1, "n1"), func(t *testing.T, f *fixture) {
		f.pl.claims.Server = otherServer{f.pl.claims.Server, errors.New("the API is off; turn it on"), 0, true}
		for name, pod := range map[string]*v1.Pod{
			"named claim":             newPod("p", uses("c")),
			"template, not made":      newPod("p", template("gpu")),
			"template, made":          newPod("p", template("gpu"), made("gpu", "p-gpu")),
			"nothing named, as 1.30s": newPod("p", uses("c"), func(p *v1.Pod) { p.Spec.ResourceClaims[0].ResourceClaimName = nil }),
		} {
			status := f.pl.PreEnqueue(f.ctx, pod)
			require.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code(), name)
			require.Contains(t, status.Message(), "cannot exist: the API is off; turn it on", name)
		}
		require.True(t, f.pl.PreEnqueue(f.ctx, newPod("p")).IsSuccess(), "pods without claims go on")
	})
}
