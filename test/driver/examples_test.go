package driver

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// example is a folder in demo/examples of the driver's module, and what is expected of its workloads.
type example struct {
	folder string
	// steps are taken one after the other; together they apply all files of the folder.
	steps []step
	// apart are pods that have no device in common, alike those that have all of them in common.
	apart, alike [][]string
}

// step applies a file and says how things are afterwards.
type step struct {
	file string
	// pods are expectations by the name of the pod. "name*" is all pods whose names begin with that.
	pods map[string]expected
	// gone are pods that are not there any more.
	gone []string
}

// expected is what becomes of a pod.
type expected struct {
	// waits are parts of the reason for which it has no node. All other fields are of pods that run.
	waits []string
	// count is how many pods there are; 0 is one.
	count int
	// devices is how many the pod has.
	devices int
	// requests are those that the devices of its claims were chosen for.
	requests []string
	// environment are parts of what its containers find in their environment.
	environment []string
	// status is whether the driver has filled in status.devices of the claims.
	status bool
}

func examplesFolder(t *testing.T) string {
	return filepath.Join(harness.ModuleFolder(t, driverModule, "driver"), "demo", "examples")
}

// filesOf returns the manifests in a folder, by their path below demo/examples.
func filesOf(t *testing.T, root, folder string) (files []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) == ".yaml" {
			relative, _ := filepath.Rel(root, path)
			files = append(files, relative)
		}
		return err
	}))
	return files
}

// mend changes what has to be changed in the objects of an example, for 1.37 to take them.
func mend(object *unstructured.Unstructured) {
	switch {
	case object.GetKind() == "PodGroup" && object.GetAPIVersion() == "scheduling.k8s.io/v1alpha2":
		// 1.37 serves the same fields as v1beta1, and v1alpha2 no more.
		object.SetAPIVersion("scheduling.k8s.io/v1beta1")
	case object.GetKind() == "Pod" && object.GetAPIVersion() == "":
		// device-taint-pod-noschedule/4-pod-not-scheduled.yaml says no version; kubectl refuses it.
		object.SetAPIVersion("v1")
	}
}

// run applies the files of an example, checks what is expected, and deletes everything.
func (i *installation) run(e example) {
	i.t.Helper()
	root := examplesFolder(i.t)
	var all []*unstructured.Unstructured
	clear := func() error {
		i.delete(all...)
		return harness.Poll(context.Background(), harness.Patience, func(ctx context.Context) error { return emptied(ctx, namespaceOf(all)) })
	}
	cleared := false
	i.t.Cleanup(func() {
		if !cleared { // The test failed. Others are not to suffer.
			i.t.Log(clear())
		}
	})
	for _, step := range e.steps {
		data, err := os.ReadFile(filepath.Join(root, e.folder, step.file))
		require.NoError(i.t, err)
		objects := decode(i.t, step.file, data)
		require.NotEmpty(i.t, objects, step.file)
		for _, object := range objects {
			mend(object)
		}
		all = append(all, objects...)
		i.apply(objects...)
		i.check(namespaceOf(all), step)
	}
	i.checkSharing(namespaceOf(all), e)
	require.NoError(i.t, clear())
	cleared = true
}

// namespaceOf is the namespace of an example.
func namespaceOf(objects []*unstructured.Unstructured) string {
	for _, object := range objects {
		if object.GetKind() == "Namespace" {
			return object.GetName()
		}
	}
	return ""
}

// check waits until what a step says is so.
func (i *installation) check(namespace string, step step) {
	i.t.Helper()
	i.eventually(func(context.Context) error {
		for name, want := range step.pods {
			pods, err := podsNamed(namespace, name)
			if err != nil {
				return err
			}
			if len(pods) != max(want.count, 1) {
				return fmt.Errorf("there are %d pods %s/%s, want %d", len(pods), namespace, name, max(want.count, 1))
			}
			for _, pod := range pods {
				if err := i.checkPod(pod, want); err != nil {
					return err
				}
			}
		}
		for _, name := range step.gone {
			if pods, err := podsNamed(namespace, name); err != nil || len(pods) > 0 {
				return fmt.Errorf("pod %s/%s is still there (%v)", namespace, name, err)
			}
		}
		return nil
	})
}

// podsNamed returns the pods that a step means by a name.
func podsNamed(namespace, name string) (pods []*corev1.Pod, err error) {
	all, err := cluster.Informers.Core().V1().Pods().Lister().Pods(namespace).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	prefix, several := strings.CutSuffix(name, "*")
	for _, pod := range all {
		if pod.Name == name || several && strings.HasPrefix(pod.Name, prefix) {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// checkPod is nil if a pod is as expected.
func (i *installation) checkPod(pod *corev1.Pod, want expected) error {
	if want.waits != nil {
		return harness.Waits(pod, want.waits...)
	}
	space := &harness.Space{T: i.t, Cluster: cluster, Name: pod.Namespace}
	if err := space.Runs(pod); err != nil {
		return fmt.Errorf("%w; preparing its claims: %q", err, i.refusal(pod))
	}
	devices, environment, running := i.container(pod)
	if !running {
		return fmt.Errorf("pod %s runs, but on no node of the driver", pod.Name)
	}
	if len(devices) != want.devices {
		return fmt.Errorf("pod %s has devices %q, want %d", pod.Name, devices, want.devices)
	}
	for _, part := range want.environment {
		if !slices.ContainsFunc(environment, func(variable string) bool { return strings.Contains(variable, part) }) {
			return fmt.Errorf("the containers of pod %s find %q in their environment, want %q", pod.Name, environment, part)
		}
	}
	claims, err := space.ClaimsOf(pod)
	if err != nil {
		return err
	}
	var requests []string
	for _, claim := range claims {
		for _, result := range claim.Status.Allocation.Devices.Results {
			requests = append(requests, result.Request)
		}
		if want.status && len(claim.Status.Devices) != len(claim.Status.Allocation.Devices.Results) {
			return fmt.Errorf("claim %s has the status of %d devices, want %d", claim.Name, len(claim.Status.Devices), len(claim.Status.Allocation.Devices.Results))
		}
	}
	slices.Sort(requests)
	if want.requests != nil && !slices.Equal(requests, want.requests) {
		return fmt.Errorf("pod %s has devices for requests %q, want %q", pod.Name, requests, want.requests)
	}
	return nil
}

// container asks the kubelet of the pod's node.
func (i *installation) container(pod *corev1.Pod) (devices, environment []string, running bool) {
	for _, k := range i.kubelets {
		if k.node == pod.Spec.NodeName {
			return k.container(pod)
		}
	}
	return nil, nil, false
}

func (i *installation) refusal(pod *corev1.Pod) string {
	for _, k := range i.kubelets {
		if k.node == pod.Spec.NodeName {
			return k.refusal(pod)
		}
	}
	return ""
}

// checkSharing checks which pods have devices in common.
func (i *installation) checkSharing(namespace string, e example) {
	i.t.Helper()
	devicesOf := func(name string) (all []string) {
		pods, err := podsNamed(namespace, name)
		require.NoError(i.t, err)
		for _, pod := range pods {
			devices, _, _ := i.container(pod)
			all = append(all, devices...)
		}
		require.NotEmpty(i.t, all, name)
		slices.Sort(all)
		return slices.Compact(all)
	}
	for _, names := range e.alike {
		for _, name := range names {
			require.Equal(i.t, devicesOf(names[0]), devicesOf(name), "%s: pods %s and %s", e.folder, names[0], name)
		}
	}
	for _, names := range e.apart {
		holders := make(map[string]string)
		for _, name := range names {
			for _, device := range devicesOf(name) {
				require.Empty(i.t, holders[device], "%s: pods %s and %s have device %s", e.folder, holders[device], name, device)
				holders[device] = name
			}
		}
	}
}
