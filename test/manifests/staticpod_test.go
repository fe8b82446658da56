package manifests

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

// codeBlock is a block of code in a document, which may be part of a list.
var codeBlock = regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```$")

// TestStaticPod follows docs/install.md on a copy of kubeadm's folder: the commands run as they are written, and the scheduler
// starts with the flags of the manifest that comes out, as kube-scheduler's user.
func TestStaticPod(t *testing.T) {
	folder := t.TempDir()
	etc := filepath.Join(folder, "etc", "kubernetes")
	original, err := os.ReadFile("testdata/kube-scheduler.yaml")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(etc, "manifests"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(folder, "root"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(etc, "manifests", "kube-scheduler.yaml"), original, 0o600))
	identity := writeKubeSchedulersKubeconfig(t, etc)

	commands, patch, back := staticPodSteps(t, folder)
	require.Len(t, commands, 3, "rights, configuration, manifest")
	shell(t, commands[0]+commands[1])
	require.NoError(t, os.WriteFile(filepath.Join(etc, "quartermaster", "kube-scheduler+strategic.yaml"), []byte(patch), 0o600))
	shell(t, commands[2])

	manifest, err := os.ReadFile(filepath.Join(etc, "manifests", "kube-scheduler.yaml"))
	require.NoError(t, err)
	pod := &corev1.Pod{}
	require.NoError(t, yaml.UnmarshalStrict(manifest, pod))
	require.True(t, pod.Spec.HostNetwork, "what the patch does not name stays")
	require.Len(t, pod.Spec.Containers, 1)
	container := pod.Spec.Containers[0]
	require.Len(t, container.VolumeMounts, len(pod.Spec.Volumes))
	require.Equal(t, "/scheduler", container.Command[0])

	process := startStaticPod(t, identity, container.Command[1:])
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	require.NoError(t, err)
	awaitLeader(t, client, "kube-scheduler")
	requireMetrics(t, client, process.Address())
	require.NoError(t, process.Stop())
	refused, err := process.LogLines("forbidden")
	require.NoError(t, err)
	require.Empty(t, refused)

	shell(t, back)
	restored, err := os.ReadFile(filepath.Join(etc, "manifests", "kube-scheduler.yaml"))
	require.NoError(t, err)
	require.Equal(t, string(original), string(restored))
	require.Empty(t, kinds(t, manifests.ReplaceDefault))
}

// staticPodSteps returns the commands and the patch of the section about kubeadm, and the commands that go back, with paths
// below a folder.
func staticPodSteps(t *testing.T, folder string) (commands []string, patch, back string) {
	t.Helper()
	document, err := os.ReadFile("../../docs/install.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(document), "\n### As kubeadm's static pod\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	section = strings.NewReplacer("/etc/kubernetes", folder+"/etc/kubernetes", "/root/", folder+"/root/").Replace(section)
	for _, block := range codeBlock.FindAllStringSubmatch(section, -1) {
		if block[1] == "yaml" {
			patch += block[2]
		} else {
			commands = append(commands, block[2])
		}
	}
	_, undo, found := strings.Cut(section, "\nTo go back")
	require.True(t, found)
	undo, _, _ = strings.Cut(undo, "\n\n")
	for _, command := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(undo, -1) {
		back += command[1] + "\n"
	}
	return commands, patch, back
}

// writeKubeSchedulersKubeconfig writes scheduler.conf, whose user is that of kubeadm's certificate, and returns its path.
func writeKubeSchedulersKubeconfig(t *testing.T, folder string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(cluster.AdminKubeconfig())
	require.NoError(t, err)
	for _, user := range config.AuthInfos {
		user.Impersonate = "system:kube-scheduler"
	}
	path := filepath.Join(folder, "scheduler.conf")
	require.NoError(t, clientcmd.WriteToFile(*config, path))
	return path
}

// startStaticPod runs bin/scheduler with the flags of a manifest, but at a port of its own.
func startStaticPod(t *testing.T, identity string, flags []string) *scheduler.Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pollTimeout)
	defer cancel()
	binary, err := controlplane.FindBinary("scheduler")
	require.NoError(t, err)
	options := scheduler.Options{Binary: binary, Kubeconfig: identity, LogFile: filepath.Join(t.TempDir(), "scheduler.log")}
	for _, flag := range flags {
		name, value, _ := strings.Cut(flag, "=")
		switch name {
		case "--config":
			options.Config, err = os.ReadFile(value)
			require.NoError(t, err)
			require.Contains(t, string(options.Config), "\n  kubeconfig: "+identity+"\n")
		case "--bind-address":
			require.Equal(t, "127.0.0.1", value, "the probes ask there")
		default:
			options.ExtraArgs = append(options.ExtraArgs, flag)
		}
	}
	process, err := scheduler.Start(ctx, options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, process.Stop()) })
	return process
}

// shell runs commands from the root of the repository, with the kubectl of our Kubernetes version, and returns their output.
func shell(t *testing.T, commands string) string {
	t.Helper()
	kubectl, err := controlplane.FindBinary("kubectl")
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), "bash", "-e", "-c", commands)
	command.Dir = filepath.Join("..", "..")
	command.Env = append(os.Environ(), "KUBECONFIG="+cluster.AdminKubeconfig(), "HOME="+t.TempDir(),
		"PATH="+filepath.Dir(kubectl)+string(os.PathListSeparator)+os.Getenv("PATH"))
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s: %s", commands, output)
	return string(output)
}
