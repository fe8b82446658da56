package kube_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// TestNoCommas: however a status is made, and whatever users have written, its reasons have no commas.
func TestNoCommas(t *testing.T) {
	t.Parallel()
	cause := errors.New(`no such key: 'a,b', in ["x", "y"]`)
	appended := kube.New(fwk.Success, "one, two")
	kube.Append(appended, "three,four")
	for _, status := range []*fwk.Status{
		kube.New(fwk.Unschedulable, cause.Error()),
		kube.Newf(fwk.Unschedulable, "claim a/b: %v", cause),
		kube.Of(fwk.Unschedulable, cause),
		kube.Failed(cause),
		appended,
	} {
		require.NotEmpty(t, status.Reasons())
		for _, reason := range status.Reasons() {
			require.NotContains(t, reason, ",")
		}
	}
	require.Equal(t, `no such key: 'a;b'; in ["x"; "y"]`, kube.Of(fwk.Unschedulable, cause).Message())
	require.ErrorIs(t, kube.Failed(cause).AsError(), cause)
	require.Nil(t, kube.Failed(nil))
}

// TestRecoded: the reasons of others stay as they are.
func TestRecoded(t *testing.T) {
	t.Parallel()
	status := kube.Recoded(fwk.UnschedulableAndUnresolvable, fwk.NewStatus(fwk.Unschedulable, "0/2 nodes are available: 1 a, 1 b."))
	require.Equal(t, []string{"0/2 nodes are available: 1 a, 1 b."}, status.Reasons())
	require.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
}
