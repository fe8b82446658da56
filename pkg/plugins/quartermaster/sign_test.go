package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// withTemplate is a pod whose claim "gpu" was made for it from a template.
func withTemplate(name string) *v1.Pod {
	return newPod(name, template("gpu"), made("gpu", name+"-gpu"))
}

func TestSignPod(t *testing.T) {
	t.Parallel()
	objects := []runtime.Object{
		with(gpus("a-gpu", 1).Obj(), ownedBy("a")), with(gpus("b-gpu", 1).Obj(), ownedBy("b")),
		with(gpus("two-gpu", 2).Obj(), ownedBy("two")),
		with(gpus("done-gpu", 1).Allocated("n1", "gpu-0"), ownedBy("done")),
		gpus("shared", 1).Obj(),
	}
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		signature := func(pod *v1.Pod) any {
			fragments, status := f.pl.SignPod(f.ctx, pod)
			require.True(t, status.IsSuccess(), status.Message())
			require.Len(t, fragments, 1)
			require.Equal(t, claimsSignature, fragments[0].Key)
			return fragments[0].Value
		}
		a := signature(withTemplate("a"))
		require.Equal(t, a, signature(withTemplate("b")), "other claims with the same content")
		require.NotEqual(t, a, signature(withTemplate("two")), "more devices")

		fragments, status := f.pl.SignPod(f.ctx, newPod("without"))
		require.True(t, status.IsSuccess())
		require.Empty(t, fragments)

		for reason, pod := range map[string]*v1.Pod{
			"claim by-name-shared may be used by other pods":                  newPod("p", uses("shared")),
			"claim for gpu in the pod has not been created yet":               newPod("p", template("gpu")),
			"claim default/gone-gpu (gpu in the pod) does not exist":          withTemplate("gone"),
			"claim default/done-gpu is allocated":                             withTemplate("done"),
			"claim default/a-gpu cannot be used: ResourceClaim default/a-gpu": newPod("p", template("gpu"), made("gpu", "a-gpu")),
		} {
			_, status := f.pl.SignPod(f.ctx, pod)
			require.Equal(t, fwk.Unschedulable, status.Code(), reason)
			require.Contains(t, status.Message(), "the pod is not batched: "+reason)
		}
	})
}

// TestBatchFindsStateOfTheMoment has two pods with the same signature. What was found
// for the first must not be taken for granted for the second.
func TestBatchFindsStateOfTheMoment(t *testing.T) {
	t.Parallel()
	objects := plus(gpuNodes(1, "n1", "n2"), with(gpus("a-gpu", 1).Obj(), ownedBy("a")), with(gpus("b-gpu", 1).Obj(), ownedBy("b")))
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		first := f.mustBegin(withTemplate("a")).filter()
		require.Equal(t, []string{"n1", "n2"}, first.feasible)
		require.NoError(t, first.reserve("n1").AsError())
		second := f.mustBegin(withTemplate("b")).filter()
		require.Equal(t, []string{"n2"}, second.feasible)
		require.NoError(t, first.preBind("n1").AsError())
	})
}
