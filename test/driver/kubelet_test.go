package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// syncPeriod is how often the stand-in looks at the pods of its node.
const syncPeriod = 50 * time.Millisecond

// kubelet does for one node what the kubelet does about devices. It runs no containers.
type kubelet struct {
	cluster *harness.Cluster
	node    string
	// folder holds "registry" and "plugins" as in /var/lib/kubelet, and "cdi". Its path is short: that of a Unix
	// socket has at most 107 bytes.
	folder string

	mutex sync.Mutex
	// plugins are those that registered, by the name of the driver.
	plugins map[string]*plugin
	// pods are those whose claims were prepared.
	pods map[types.UID]*preparedPod
	// refused says of a pod why its claims could not be prepared.
	refused map[types.UID]string
	// unprepared counts the claims that were.
	unprepared int
	// problems is what a driver must not do.
	problems []string
}

// preparedPod is what a node knows of a pod that it runs.
type preparedPod struct {
	claims map[types.UID]*preparedClaim
}

// preparedClaim is what a driver made of a claim.
type preparedClaim struct {
	claim   *drapb.Claim
	driver  string
	devices []*drapb.Device
	// environment is what CDI adds to that of a container which uses the claim: "name=value".
	environment []string
}

func newKubelet(cluster *harness.Cluster, node, folder string) *kubelet {
	return &kubelet{
		cluster: cluster, node: node, folder: folder,
		plugins: make(map[string]*plugin), pods: make(map[types.UID]*preparedPod), refused: make(map[types.UID]string),
	}
}

func (k *kubelet) registry() string { return filepath.Join(k.folder, "registry") }
func (k *kubelet) dataOf() string   { return filepath.Join(k.folder, "plugins") }
func (k *kubelet) cdi() string      { return filepath.Join(k.folder, "cdi") }

// run goes on until ctx ends.
func (k *kubelet) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := k.sync(ctx); err != nil && ctx.Err() == nil {
			k.complain(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(syncPeriod):
		}
	}
}

// sync does what there is to do. What cannot be done yet is tried again the next time.
func (k *kubelet) sync(ctx context.Context) error {
	if err := k.registerPlugins(ctx); err != nil {
		return err
	}
	pods, err := k.cluster.Informers.Core().V1().Pods().Lister().List(labels.Everything())
	if err != nil {
		return err
	}
	var errs []error
	seen := make(map[types.UID]bool)
	for _, pod := range pods {
		if pod.Spec.NodeName != k.node {
			continue
		}
		seen[pod.UID] = true
		if pod.DeletionTimestamp != nil {
			errs = append(errs, k.end(ctx, pod))
		} else if pod.Status.Phase == corev1.PodPending {
			errs = append(errs, k.start(ctx, pod))
		}
	}
	for _, uid := range k.podsWithout(seen) {
		errs = append(errs, k.release(ctx, uid)) // Somebody has deleted it without waiting for the node.
	}
	return errors.Join(errs...)
}

// podsWithout are the pods that the node runs and that are not among the given ones.
func (k *kubelet) podsWithout(seen map[types.UID]bool) (others []types.UID) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for uid := range k.pods {
		if !seen[uid] {
			others = append(others, uid)
		}
	}
	return others
}

// start has the claims of a pod prepared. Then the pod runs.
func (k *kubelet) start(ctx context.Context, pod *corev1.Pod) error {
	claims, err := (&harness.Space{Cluster: k.cluster, Name: pod.Namespace}).ClaimsOf(pod)
	if err != nil {
		return nil // The informer has not seen it yet.
	}
	prepared := &preparedPod{claims: make(map[types.UID]*preparedClaim)}
	for _, claim := range claims {
		if claim.Status.Allocation == nil || !resourceclaim.IsReservedForPod(pod, claim, true) {
			return nil // As above: the scheduler has written it before it bound the pod, which the harness checks.
		}
		if err := k.prepare(ctx, claim, prepared); err != nil {
			k.refuse(pod, err)
			return nil
		}
	}
	k.mutex.Lock()
	k.pods[pod.UID] = prepared
	delete(k.refused, pod.UID)
	k.mutex.Unlock()
	return k.setPhase(ctx, pod, corev1.PodRunning)
}

// prepare calls the drivers whose devices a claim has.
func (k *kubelet) prepare(ctx context.Context, claim *resourceapi.ResourceClaim, into *preparedPod) error {
	drivers := make(map[string]bool)
	for _, result := range claim.Status.Allocation.Devices.Results {
		drivers[result.Driver] = true
	}
	for _, driver := range slices.Sorted(maps.Keys(drivers)) {
		plugin := k.plugin(driver)
		if plugin == nil {
			return fmt.Errorf("driver %s is not registered on node %s", driver, k.node)
		}
		prepared, err := plugin.prepare(ctx, claim)
		if err != nil {
			return err
		}
		if err := k.checkAnswer(claim, prepared); err != nil {
			k.complain(err)
		}
		into.claims[claim.UID] = prepared
	}
	return nil
}

// release has the claims of a pod unprepared that no other pod on the node uses.
func (k *kubelet) release(ctx context.Context, pod types.UID) error {
	k.mutex.Lock()
	last := make(map[types.UID]*preparedClaim)
	if prepared := k.pods[pod]; prepared != nil {
		maps.Copy(last, prepared.claims)
	}
	for uid, other := range k.pods {
		for claim := range other.claims {
			if uid != pod {
				delete(last, claim)
			}
		}
	}
	k.mutex.Unlock()
	for _, claim := range last {
		if err := k.unprepare(ctx, claim); err != nil {
			return err
		}
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	delete(k.pods, pod)
	return nil
}

// end releases the claims of a pod that was deleted, and then ends the pod.
func (k *kubelet) end(ctx context.Context, pod *corev1.Pod) error {
	if err := k.release(ctx, pod.UID); err != nil {
		return err
	}
	if pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
		if err := k.setPhase(ctx, pod, corev1.PodSucceeded); err != nil {
			return err
		}
	}
	err := k.cluster.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (k *kubelet) unprepare(ctx context.Context, claim *preparedClaim) error {
	plugin := k.plugin(claim.driver)
	if plugin == nil {
		return fmt.Errorf("driver %s is not registered any more on node %s, but has claim %s/%s prepared",
			claim.driver, k.node, claim.claim.Namespace, claim.claim.Name)
	}
	if err := plugin.unprepare(ctx, claim.claim); err != nil {
		return err
	}
	k.mutex.Lock()
	k.unprepared++
	k.mutex.Unlock()
	left, err := devicesInCDI(k.cdi())
	if err != nil {
		return err
	}
	for _, device := range claim.devices {
		for _, id := range device.CdiDeviceIds {
			_, found := left[id]
			if found && !strings.HasSuffix(id, "=common") { // That one is the same for all.
				k.complain(fmt.Errorf("CDI still has %s after claim %s/%s was unprepared", id, claim.claim.Namespace, claim.claim.Name))
			}
		}
	}
	return nil
}

func (k *kubelet) setPhase(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) error {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"phase":%q}}`, pod.UID, phase)
	_, err := k.cluster.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // It is gone, or another one by now.
	}
	return err
}

func (k *kubelet) plugin(driver string) *plugin {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.plugins[driver]
}

func (k *kubelet) refuse(pod *corev1.Pod, err error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.refused[pod.UID] = err.Error()
}

func (k *kubelet) complain(err error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if text := k.node + ": " + err.Error(); !slices.Contains(k.problems, text) {
		k.problems = append(k.problems, text)
	}
}

// emptied is nil if the node runs no pods.
func (k *kubelet) emptied() error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if len(k.pods) > 0 {
		return fmt.Errorf("node %s still runs %d pods", k.node, len(k.pods))
	}
	return nil
}

// container is what a container of a pod finds that uses all claims of it: devices as "driver/device", and the
// environment.
func (k *kubelet) container(pod *corev1.Pod) (devices, environment []string, running bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	prepared, running := k.pods[pod.UID]
	if !running {
		return nil, nil, false
	}
	for _, claim := range prepared.claims {
		for _, device := range claim.devices {
			devices = append(devices, device.PoolName+"/"+device.DeviceName)
		}
		environment = append(environment, claim.environment...)
	}
	slices.Sort(devices)
	return devices, environment, true
}

// refusal is why the claims of a pod could not be prepared, "" if they were or were not tried.
func (k *kubelet) refusal(pod *corev1.Pod) string {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.refused[pod.UID]
}
