//go:build linux

package image

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{Name: "image", Binaries: []string{"image-builder", "guard"}}, func(c *harness.Cluster) { cluster = c }))
}

// build has the image built of the binaries for this machine.
func build(t *testing.T) string {
	t.Helper()
	builder, err := controlplane.FindBinary("image-builder")
	require.NoError(t, err)
	binaries, platform := t.TempDir(), "linux-"+runtime.GOARCH
	require.NoError(t, os.Mkdir(filepath.Join(binaries, platform), 0o755))
	for _, program := range []string{"scheduler", "guard"} {
		binary, err := controlplane.FindBinary(program)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(binary, filepath.Join(binaries, platform, program)))
	}
	licenses := t.TempDir() // What goes in there is up to tools/dist.
	require.NoError(t, os.WriteFile(filepath.Join(licenses, "modules.tsv"), nil, 0o644))
	archive := filepath.Join(t.TempDir(), "image.tar")
	output, err := exec.CommandContext(t.Context(), builder, "-binaries", binaries, "-licenses", licenses, "-platforms", strings.ReplaceAll(platform, "-", "/"), "-output", archive).CombinedOutput()
	require.NoError(t, err, "%s", output)
	return archive
}

// TestRuns: the image has all that the scheduler needs, for a user who may write nowhere.
func TestRuns(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may give a process another root directory; run the tests as root, for instance in a container")
	}
	s := cluster.NewSpace(t, "image", "", 1)
	s.Devices(0, harness.Numbered(1)...)
	s.Create(builder.Claim("one", s.Want(1)).Template())

	files, root := readLayout(t, build(t)), t.TempDir()
	image, config := files.image(t)
	files.unpack(t, image, root)
	for dir := root; dir != filepath.Dir(dir); dir = filepath.Dir(dir) { // Go makes them for root alone.
		require.NoError(t, os.Chmod(dir, 0o755))
		if dir == os.TempDir() {
			break
		}
	}
	configure(t, s, root)
	start(t, root, config)
	s.Create(s.Pod("pod", builder.FromTemplate("one")))
	s.Running("pod")
}

// configure adds what a pod's volumes would: a configuration, and who the scheduler is.
func configure(t *testing.T, s *harness.Space, root string) {
	t.Helper()
	options := harness.SchedulerOptions{Profile: s.Profile, Change: func(config map[string]any) {
		config["clientConnection"].(map[string]any)["kubeconfig"] = "/config/kubeconfig"
		config["leaderElection"].(map[string]any)["leaderElect"] = false
	}}
	config, err := harness.SchedulerConfig(&options)
	require.NoError(t, err)
	kubeconfig, err := os.ReadFile(cluster.Kubeconfig)
	require.NoError(t, err)
	var parsed map[string]any
	require.NoError(t, yaml.Unmarshal(kubeconfig, &parsed))
	require.NotContains(t, string(kubeconfig), "certificate-authority:", "its files would not be there")
	require.NoError(t, os.Mkdir(filepath.Join(root, "config"), 0o755))
	for name, content := range map[string][]byte{"scheduler.yaml": config, "kubeconfig": kubeconfig} {
		require.NoError(t, os.WriteFile(filepath.Join(root, "config", name), content, 0o444))
	}
}

// start runs the image's entry point until the end of the test, as soon as it is ready.
func start(t *testing.T, root string, config manifest) {
	t.Helper()
	uid, gid, found := strings.Cut(config.Config.User, ":")
	require.True(t, found, "user %q", config.Config.User)
	port := freePort(t)
	process := exec.Command(config.Config.Entrypoint[0], "--config=/config/scheduler.yaml", "--bind-address=127.0.0.1", "--secure-port="+port,
		"--authentication-kubeconfig=/config/kubeconfig", "--authorization-kubeconfig=/config/kubeconfig")
	process.SysProcAttr = &syscall.SysProcAttr{
		Chroot: root, Pdeathsig: syscall.SIGTERM,
		Credential: &syscall.Credential{Uid: number(t, uid), Gid: number(t, gid)},
	}
	process.Dir, process.Env = "/", []string{}
	log, err := os.Create(filepath.Join(cluster.Logs, "image.log"))
	require.NoError(t, err)
	process.Stdout, process.Stderr = log, log
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		require.NoError(t, process.Process.Signal(syscall.SIGTERM))
		_ = process.Wait() // kube-scheduler's status says that it was asked to end.
		require.NoError(t, log.Close())
	})
	require.NoError(t, ready(t.Context(), "https://127.0.0.1:"+port+"/readyz"), "see %s", log.Name())
}

func ready(ctx context.Context, url string) error {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: time.Second}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("%s answers %s", url, answer.Status)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the scheduler is not ready after three minutes: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func number(t *testing.T, text string) uint32 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 32)
	require.NoError(t, err)
	require.NotZero(t, n, "it would be root")
	return uint32(n)
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	return port
}
