package tutorial

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

// schedulerLabels select the pods of the Deployment.
const schedulerLabels = "app.kubernetes.io/name=quartermaster,app.kubernetes.io/component=scheduler"

// node runs the scheduler's pods as processes, as far as a kubelet's work matters here: the image from the registry, the
// configuration from the volume, the command line, and the rights of the service account.
type node struct {
	cluster *ownCluster
	// folder is for images and logs.
	folder  string
	running map[types.UID]*scheduler.Process
}

// startNode runs pods of the scheduler until the end of the test.
func (c *ownCluster) startNode(t *testing.T, folder string) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	n := &node{cluster: c, folder: folder, running: map[types.UID]*scheduler.Process{}}
	ended := make(chan error, 1)
	go func() { ended <- n.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended, "run the scheduler's pods")
	})
}

// run keeps processes in step with pods until ctx ends, or something fails.
func (n *node) run(ctx context.Context) (err error) {
	defer func() {
		for _, process := range n.running {
			err = errors.Join(err, process.Stop())
		}
	}()
	for ctx.Err() == nil {
		if err := n.step(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

func (n *node) step(ctx context.Context) error {
	pods, err := n.cluster.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: schedulerLabels})
	if err != nil {
		return err
	}
	wanted := map[types.UID]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		wanted[pod.UID] = true
		if n.running[pod.UID] != nil {
			continue
		}
		process, err := n.start(ctx, pod)
		if err != nil {
			return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		n.running[pod.UID] = process
	}
	for uid, process := range n.running {
		if wanted[uid] {
			continue
		}
		delete(n.running, uid)
		if err := process.Stop(); err != nil {
			return err
		}
	}
	return nil
}

// start runs the one container of a pod.
func (n *node) start(ctx context.Context, pod *corev1.Pod) (*scheduler.Process, error) {
	if len(pod.Spec.Containers) != 1 {
		return nil, fmt.Errorf("it has %d containers, and this node can run one", len(pod.Spec.Containers))
	}
	container := &pod.Spec.Containers[0]
	line := append(append([]string{}, container.Command...), container.Args...)
	if len(line) == 0 {
		return nil, errors.New("it has no command")
	}
	program, err := pull(ctx, container.Image, line[0], filepath.Join(n.folder, "image", string(pod.UID)))
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", container.Image, err)
	}
	config, others, err := n.config(ctx, pod, line[1:])
	if err != nil {
		return nil, err
	}
	identity, err := n.cluster.controlPlane.ServiceAccountKubeconfig(ctx, pod.Namespace, pod.Spec.ServiceAccountName)
	if err != nil {
		return nil, err
	}
	return scheduler.Start(ctx, scheduler.Options{
		Binary: program, Kubeconfig: identity, Config: config, LogFile: filepath.Join(n.folder, pod.Name+".log"),
		// In a pod these are found without being told.
		ExtraArgs: append(others, "--authentication-kubeconfig="+identity, "--authorization-kubeconfig="+identity),
	})
}

// config reads the file that the flag --config names from the ConfigMap that is mounted there, and returns it with the other arguments.
func (n *node) config(ctx context.Context, pod *corev1.Pod, args []string) (config []byte, others []string, err error) {
	for _, arg := range args {
		path, isConfig := strings.CutPrefix(arg, "--config=")
		if !isConfig {
			others = append(others, arg)
			continue
		}
		if config, err = n.file(ctx, pod, path); err != nil {
			return nil, nil, err
		}
	}
	if config == nil {
		return nil, nil, fmt.Errorf("no --config among %q", args)
	}
	return config, others, nil
}

// file is what the container reads at a path.
func (n *node) file(ctx context.Context, pod *corev1.Pod, path string) ([]byte, error) {
	for _, mount := range pod.Spec.Containers[0].VolumeMounts {
		name, isInside := strings.CutPrefix(path, mount.MountPath+"/")
		if !isInside {
			continue
		}
		for _, volume := range pod.Spec.Volumes {
			if volume.Name != mount.Name || volume.ConfigMap == nil {
				continue
			}
			mounted, err := n.cluster.client.CoreV1().ConfigMaps(pod.Namespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			if content, found := mounted.Data[name]; found {
				return []byte(content), nil
			}
			return nil, fmt.Errorf("ConfigMap %s has no key %s", mounted.Name, name)
		}
	}
	return nil, fmt.Errorf("no ConfigMap is mounted around %s", path)
}
