package podclaims

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
)

func TestLive(t *testing.T) {
	t.Parallel()
	bound := builder.Pod("bound", func(pod *v1.Pod) { pod.Spec.NodeName = "n" })
	replaced := builder.Pod("bound", func(pod *v1.Pod) { pod.UID = "before" })
	client := fake.NewClientset(builder.Pod("waiting"), bound)
	for name, want := range map[string]*v1.Pod{"waiting": builder.Pod("waiting"), "bound": bound, "gone": nil} {
		pod, err := Live(t.Context(), client, "default", name)
		require.NoError(t, err)
		require.Equal(t, want, pod)
	}
	for pod, want := range map[*v1.Pod]bool{bound: true, replaced: false, builder.Pod("waiting"): false, builder.Pod("gone"): false} {
		is, err := IsBound(t.Context(), client, pod)
		require.NoError(t, err)
		require.Equal(t, want, is, pod.Name)
	}
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("away") })
	_, err := Live(t.Context(), client, "default", "bound")
	require.Error(t, err, "not known is not gone")
	_, err = IsBound(t.Context(), client, bound)
	require.ErrorContains(t, err, "find out whether pod default/bound has been bound")
}
