package restarts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/quartermaster-dra/quartermaster/test/harness"
	schedulerproc "github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

// TestRestoredFromABackup: etcd goes back to a copy of its files. A scheduler and a guard that were running do not go on
// by what they know: both end. Without a change of history, as when the copy is made, they go on.
//
// It is in the last file of this package: the controllers of the control plane, which are those of Kubernetes, notice
// nothing.
func TestRestoredFromABackup(t *testing.T) {
	harness.Long(t, "etcd is restored from copies")
	s := cluster.NewSpace(t, "restored", "", 1)
	s.Patience = restartPatience
	s.Devices(0, harness.Numbered(4)...)
	require.NoError(t, cluster.InstallGuard(t.Context(), admissionregistrationv1.Fail))
	guard, err := cluster.StartGuard(t.Context(), t.Name()+"-guard", harness.ShortGuardLease...)
	require.NoError(t, err)
	scheduler, err := cluster.StartScheduler(t.Context(), harness.SchedulerOptions{Profile: s.Profile})
	require.NoError(t, err)
	processes := map[string]*schedulerproc.Process{"guard": guard, "scheduler": scheduler.Process}
	for _, process := range processes {
		t.Cleanup(func() { _ = process.Stop() })
	}
	s.ClaimAndPod("before", s.Want(1))
	runAll(s, 1)

	files, backup := filepath.Join(cluster.ControlPlane.Dir(), "etcd"), filepath.Join(t.TempDir(), "etcd")
	whileDown(t, func() error { return os.CopyFS(backup, os.DirFS(files)) })
	for i := range 3 {
		s.ClaimAndPod(fmt.Sprintf("after-%d", i), s.Want(1))
	}
	runAll(s, 4)
	for name, process := range processes {
		require.NoError(t, process.Err(), "%s has no reason to end yet", name)
	}

	whileDown(t, func() error {
		if err := os.RemoveAll(files); err != nil {
			return err
		}
		return os.CopyFS(files, os.DirFS(backup))
	})
	for name, process := range processes {
		select {
		case <-process.Done():
		case <-time.After(restartPatience):
			t.Fatalf("the %s goes on with what never happened", name)
		}
		says, err := process.LogLines("resourceVersions went back")
		require.NoError(t, err)
		require.NotEmpty(t, says, name)
	}
	require.NoError(t, cluster.RemoveGuard(context.WithoutCancel(t.Context())))
}

// whileDown does something while neither etcd nor the API server run.
func whileDown(t *testing.T, do func() error) {
	t.Helper()
	require.NoError(t, cluster.ControlPlane.APIServer().Stop())
	require.NoError(t, cluster.ControlPlane.Etcd().Stop())
	require.NoError(t, do())
	time.Sleep(outage)
	require.NoError(t, cluster.ControlPlane.Etcd().Start(t.Context()))
	require.NoError(t, cluster.ControlPlane.APIServer().Start(t.Context()))
}
