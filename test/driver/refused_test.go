package driver

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// badConfig is a pod whose claim asks for something that the driver does not know.
const badConfig = `
apiVersion: v1
kind: Namespace
metadata: {name: bad-config}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu, namespace: bad-config}
spec:
  devices:
    requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]
    config:
    - opaque:
        driver: gpu.example.com
        parameters:
          apiVersion: gpu.resource.example.com/v1alpha1
          kind: GpuConfig
          sharing: {strategy: Guesswork}
---
apiVersion: v1
kind: Pod
metadata: {name: pod0, namespace: bad-config}
spec:
  containers: [{name: ctr0, image: none, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimName: gpu}]
`

// TestRefusedByTheDriver has a claim whose configuration only the driver can judge: the pod is bound, and does not
// start. Once it is deleted, the device is there for others.
func TestRefusedByTheDriver(t *testing.T) {
	scheduler(t)
	i := install(t, options{profile: "gpu", nodes: 1, devices: 1})
	objects := decode(t, "badConfig", []byte(badConfig))
	i.apply(objects...)
	i.eventually(func(context.Context) error {
		pod, err := podNamed("bad-config", "pod0")
		if err != nil {
			return err
		}
		if refusal := i.refusal(pod); !strings.Contains(refusal, "unknown GPU sharing strategy: Guesswork") {
			return fmt.Errorf("pod0 is on node %q, and preparing its claim: %q", pod.Spec.NodeName, refusal)
		}
		return nil
	})
	pod, err := podNamed("bad-config", "pod0")
	require.NoError(t, err)
	require.Equal(t, corev1.PodPending, pod.Status.Phase)
	require.NoError(t, (&harness.Space{T: t, Cluster: cluster, Name: "bad-config"}).Placed(pod))
	i.delete(objects...)
	i.eventually(func(ctx context.Context) error { return emptied(ctx, "bad-config") })
	i.run(single("initcontainer-shared-gpu", map[string]expected{"pod0": one}))
}

// TestRunsOut has fewer devices than pods. The device that becomes free is prepared for the pod that waited.
func TestRunsOut(t *testing.T) {
	scheduler(t)
	i := install(t, options{profile: "gpu", nodes: 1, devices: 1})
	data := `
apiVersion: v1
kind: Namespace
metadata: {name: runs-out}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu, namespace: runs-out}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
---
` + pod("runs-out", "first") + "---\n"
	objects := decode(t, "first", []byte(data))
	i.apply(objects...)
	i.check("runs-out", step{pods: map[string]expected{"first": one}})
	second := decode(t, "second", []byte(pod("runs-out", "second")))
	i.apply(second...)
	i.check("runs-out", step{pods: map[string]expected{"second": {waits: []string{"gpu"}}}})
	i.delete(objects[len(objects)-1])
	i.check("runs-out", step{pods: map[string]expected{"second": {devices: 1, environment: []string{"GPU_DEVICE_0=gpu-0"}}}, gone: []string{"first"}})
	i.delete(append(objects, second...)...)
	i.eventually(func(ctx context.Context) error { return emptied(ctx, "runs-out") })
}

// pod is one with a claim from template gpu.
func pod(namespace, name string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s}
spec:
  containers: [{name: ctr0, image: none, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
`, name, namespace)
}

func podNamed(namespace, name string) (*corev1.Pod, error) {
	return cluster.Informers.Core().V1().Pods().Lister().Pods(namespace).Get(name)
}
