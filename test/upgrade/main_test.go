package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{
		Name: "upgrade", Binaries: []string{"guard", "kube-scheduler"},
		ControlPlane: controlplane.Options{WebhookCertificate: true},
	}, func(c *harness.Cluster) { cluster, c.OlderReleases = c, true }))
}

// release is one of the two that meet here.
type release string

const (
	previous release = "previous"
	ours     release = "ours"
)

// binary is the name of an executable of the release in bin.
func (r release) binary(name string) string {
	if r == previous {
		return "previous/" + name
	}
	return name
}

// options are those of a scheduler of the release, with the configuration that it was shipped with.
func (r release) options(t *testing.T, name string) harness.SchedulerOptions {
	t.Helper()
	o := harness.SchedulerOptions{Binary: r.binary("scheduler"), Name: name + "-" + string(r)}
	if r == previous {
		var err error
		o.Shipped, err = os.ReadFile(filepath.Join(previousManifests(t), "secondary", "scheduler-config.yaml"))
		require.NoError(t, err)
	}
	return o
}

// previousManifests is the folder with the manifests of the previous release.
func previousManifests(t *testing.T) string {
	t.Helper()
	binary, err := controlplane.FindBinary(previous.binary("scheduler"))
	require.NoError(t, err)
	return filepath.Join(filepath.Dir(binary), "manifests")
}

// directions are an upgrade and a rollback: who is first, and who comes then.
var directions = []struct {
	name        string
	first, then release
}{
	{"upgrade", previous, ours},
	{"rollback", ours, previous},
}

// namedCommit is what hack/previous-release names.
var namedCommit = regexp.MustCompile(`(?m)^[^#\s]+$`)

// needsPrevious skips a test in a clone whose history does not have the previous release. Where it
// could be built and was not, that is an error.
func needsPrevious(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		_, missing := controlplane.FindBinary(previous.binary(program))
		if missing == nil {
			continue
		}
		if _, err := controlplane.FindBinary(previous.binary("scheduler")); err == nil && program != "scheduler" {
			_, err := os.Stat(filepath.Join(previousManifests(t), program))
			if errors.Is(err, fs.ErrNotExist) {
				t.Skipf("the previous release has no %s", program)
			}
		}
		file := filepath.Join("..", "..", "hack", "previous-release")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		commit := namedCommit.FindString(string(text))
		require.NotEmpty(t, commit, "%s names no release", file)
		if err := exec.Command("git", "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
			t.Skipf("the previous release, %s (hack/previous-release), is not in the history of this clone, so that its %s cannot be built; "+
				"\"git fetch --unshallow --tags\" gets it (git cat-file: %v)", commit, program, err)
		}
		require.NoError(t, missing, "make bin/previous/%s builds it", program)
	}
}

// areDifferent fails the test unless two schedulers are of different builds, and returns their versions.
func areDifferent(t *testing.T, a, b *harness.Scheduler) string {
	t.Helper()
	one, other := versionOf(t, a), versionOf(t, b)
	require.NotEqual(t, one, other, "hack/previous-release has to name another release than this one")
	return fmt.Sprintf("%s and %s", one, other)
}

// versionOf is what a running scheduler says that it is.
func versionOf(t *testing.T, scheduler *harness.Scheduler) (version string) {
	t.Helper()
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, func(ctx context.Context) error {
		metrics, err := scheduler.ReadMetrics(ctx)
		for sample := range metrics.Samples("kubernetes_build_info") {
			version = string(sample.Metric["git_version"])
		}
		return err
	}))
	require.True(t, strings.Contains(version, "+quartermaster."), "%s is version %q", scheduler.LogFile(), version)
	return version
}
