package alpha

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/checker"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// burst is a space in which pods come and go that take CPUs of node 0 by their spec, by a device, or both.
type burst struct {
	*space
	random *rand.Rand
	node   *nodeWatch
	// sorts are the sorts of pods; profiles are the schedulerNames that they have.
	sorts    []podSort
	profiles []string
	// published are the devices of the node.
	published []resourceapi.Device
	// alive holds the sorts of the pods that have not been deleted.
	alive map[string]podSort
	made  int
}

// podSort is a sort of pods. The template that it is named after has its claim.
type podSort struct {
	name string
	// spec is what the pod requests. device is what any device for its claim takes in addition.
	spec, device string
	// fits reports whether there is a device for the claim.
	fits func(*leftOfNode) bool
}

const burstCPUs = 8

// sortsOfPods are for a node with six devices of one CPU, two of two CPUs, a device with a capacity of six CPUs, and two GPUs that need
// a quarter of a CPU: 16.5 CPUs, of which the node has eight.
func sortsOfPods() []podSort {
	one := func(l *leftOfNode) bool { return l.devices["1"] > 0 }
	two := func(l *leftOfNode) bool { return l.devices["2"] > 0 }
	share := func(l *leftOfNode) bool { return l.capacity.CmpInt64(2) >= 0 }
	gpu := func(l *leftOfNode) bool { return l.devices["gpu"] > 0 }
	always := func(*leftOfNode) bool { return true }
	return []podSort{
		{name: "spec-small", spec: "700m", fits: always},
		{name: "spec-large", spec: "2300m", fits: always},
		{name: "one", device: "1", fits: one},
		{name: "two", device: "2", fits: two},
		{name: "share", device: "2", fits: share},
		{name: "one-and-spec", spec: "600m", device: "1", fits: one},
		{name: "share-and-spec", spec: "1", device: "2", fits: share},
		{name: "gpu", spec: "500m", device: "250m", fits: gpu},
	}
}

// Pods of all sorts come in bursts onto a small node, and some of them go. At no time is more of the node taken than the kubelet admits,
// and in the end of each burst everything runs that fits. Meanwhile schedulers die, in turn:
//   - one, which is started again,
//   - one of two with different pods. There, all CPUs are devices: schedulers do not know of each other what their pods request.
//   - the leader of two replicas.
//
// The simulation lives through many more of these, on an API server in memory.
func TestNodeAllocatableBursts(t *testing.T) {
	harness.Long(t, "schedulers die in bursts")
	t.Parallel()
	for round, name := range []string{"restarted", "two-schedulers", "two-replicas"} {
		t.Run(fmt.Sprintf("%d-%s", round, name), func(t *testing.T) {
			b := newBurst(t, round, name)
			var second *harness.Scheduler
			first := harness.SchedulerOptions{FeatureGates: gates}
			switch name {
			case "two-schedulers":
				b.profiles = append(b.profiles, b.Name+"-2")
				second = b.StartScheduler(harness.SchedulerOptions{FeatureGates: gates, Profile: b.profiles[1]})
			case "two-replicas":
				first.LeaderElection, first.Change, first.PluginArgs = true, harness.ShortLease, map[string]any{"takeoverPause": "3s"}
			}
			scheduler := b.StartScheduler(first)
			if first.LeaderElection {
				b.EventuallyLeads(scheduler, nil)
				first.Name = b.Name + "-standby"
				second = b.StartScheduler(first)
			}
			b.wave(8)
			b.settle()
			for range 2 {
				b.remove(4)
				b.wave(6)
				b.remove(2)
				b.dies(scheduler, name != "two-replicas")
				b.wave(4)
				b.settle()
				if name == "two-replicas" {
					scheduler = second
					break
				}
			}
			require.NoError(t, scheduler.Err())
			b.remove(len(b.alive))
			b.wave(6)
			b.settle()
		})
	}
}

// newBurst makes the node with its devices, and the templates.
func newBurst(t *testing.T, round int, kind string) *burst {
	b := &burst{
		space:  &space{cluster.NewSpace(t, fmt.Sprintf("ofnodeburst-%d", round), "", 1)},
		random: rand.New(rand.NewPCG(uint64(round), 48)),
		sorts:  sortsOfPods(), alive: make(map[string]podSort),
	}
	b.profiles = []string{b.Profile}
	b.leave("cpu", fmt.Sprint(burstCPUs))
	devices := []*builder.DeviceBuilder{
		builder.Device("share").Shared().Attr("kind", "share").Capacity("cpus", "6").Modify(standsForCapacity(corev1.ResourceCPU, "cpus")),
		builder.Device("gpu-0").Attr("kind", "gpu").Modify(needs(corev1.ResourceCPU, "150m", "100m")),
		builder.Device("gpu-1").Attr("kind", "gpu").Modify(needs(corev1.ResourceCPU, "150m", "100m")),
	}
	ones, twos := 6, 2
	if kind == "two-schedulers" {
		b.sorts, devices, ones = b.sorts[2:4], nil, 4
	}
	for i := range ones {
		devices = append(devices, builder.Device(fmt.Sprint("one-", i)).Attr("kind", "1").Modify(stands(corev1.ResourceCPU, "1")))
	}
	for i := range twos {
		devices = append(devices, builder.Device(fmt.Sprint("two-", i)).Attr("kind", "2").Modify(stands(corev1.ResourceCPU, "2")))
	}
	b.devicesOfNode(devices...)
	b.published = b.Slice(0, devices...).Obj().Spec.Devices
	of := func(kind string) *builder.RequestBuilder { return b.Want(1, b.Attribute("kind")+` == "`+kind+`"`) }
	for name, request := range map[string]*builder.RequestBuilder{
		"one": of("1"), "two": of("2"), "share": of("share").Capacity("cpus", "2"), "gpu": of("gpu"),
		"one-and-spec": of("1"), "share-and-spec": of("share").Capacity("cpus", "2"),
	} {
		b.Create(builder.Claim(name, request).Template())
	}
	b.node = b.watchNode()
	return b
}

// wave creates pods of random sorts.
func (b *burst) wave(count int) {
	b.T.Helper()
	var pods []runtime.Object
	for range count {
		sort := b.sorts[b.random.IntN(len(b.sorts))]
		name := fmt.Sprintf("%s-%d", sort.name, b.made)
		var claims []corev1.PodResourceClaim
		if sort.device != "" {
			claims = builder.FromTemplate(sort.name)
		}
		pod := b.Pod(name, claims)
		pod.Spec.SchedulerName = b.profiles[b.made%len(b.profiles)]
		pod.Spec.Containers[0].Resources.Requests = nil
		if sort.spec != "" {
			pod.Spec.Containers[0].Resources.Requests = builder.Resources("cpu", sort.spec)
		}
		b.made++
		b.alive[name] = sort
		b.MayWait("the CPUs of the node are taken", name)
		pods = append(pods, pod)
	}
	b.Create(pods...)
}

// remove deletes some pods, no matter whether they run.
func (b *burst) remove(count int) {
	b.T.Helper()
	for range count {
		names := slices.Sorted(maps.Keys(b.alive))
		name := names[b.random.IntN(len(names))]
		delete(b.alive, name)
		b.DeletePod(name)
	}
}

// dies kills a scheduler, and starts it again unless another replica goes on.
func (b *burst) dies(scheduler *harness.Scheduler, again bool) {
	b.T.Helper()
	require.NoError(b.T, scheduler.Kill())
	if again {
		require.NoError(b.T, scheduler.Restart(b.T.Context()))
	}
}

// settle waits until everything runs that fits.
func (b *burst) settle() {
	b.T.Helper()
	b.Eventually("run all that fits", func(context.Context) error {
		if len(b.Pods()) != len(b.alive) {
			return fmt.Errorf("there are %d pods, want %d", len(b.Pods()), len(b.alive))
		}
		left, err := b.left()
		if err != nil {
			return err
		}
		for _, pod := range b.Pods() {
			sort := b.alive[pod.Name]
			if pod.Spec.NodeName != "" {
				if err := b.Placed(pod); err != nil {
					return err
				}
				if takes := cpusOf(pod); takes.Cmp(*sort.needs()) != 0 {
					return fmt.Errorf("pod %s takes %s CPUs by its spec and its status, want %s", pod.Name, takes.String(), sort.needs())
				}
				continue
			}
			if sort.needs().Cmp(left.cpus) <= 0 && sort.fits(left) {
				return fmt.Errorf("pod %s would fit, since %s CPUs of the node are left: %s", pod.Name, left.cpus.String(), harness.Reason(pod))
			}
		}
		return nil
	})
	require.Empty(b.T, b.node.refused())
}

// needs returns the CPUs that a pod takes with its device.
func (p podSort) needs() *resource.Quantity {
	sum := &resource.Quantity{}
	for _, text := range []string{p.spec, p.device} {
		if text != "" {
			sum.Add(resource.MustParse(text))
		}
	}
	return sum
}

// leftOfNode is what pods have left of the node.
type leftOfNode struct {
	cpus, capacity resource.Quantity
	// devices are the free ones of each kind.
	devices map[string]int
}

// left returns what is left, as soon as the claims of deleted pods are gone.
func (b *burst) left() (*leftOfNode, error) {
	left := &leftOfNode{cpus: *resource.NewQuantity(burstCPUs, resource.DecimalSI), capacity: resource.MustParse("6"), devices: make(map[string]int)}
	for _, pod := range b.Pods() {
		if onNode(pod) {
			left.cpus.Sub(cpusOf(pod))
		}
	}
	free := make(map[string]string)
	for _, device := range b.published {
		free[device.Name] = *device.Attributes["kind"].StringValue
	}
	claims, err := b.Cluster.Informers.Resource().V1().ResourceClaims().Lister().ResourceClaims(b.Name).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	for _, claim := range claims {
		if pod := claim.OwnerReferences[0].Name; !slices.ContainsFunc(b.Pods(), func(p *corev1.Pod) bool { return p.Name == pod }) {
			return nil, fmt.Errorf("claim %s is still there", claim.Name)
		}
		for _, result := range checker.Results(claim) {
			if result.ShareID != nil {
				left.capacity.Sub(result.ConsumedCapacity["cpus"])
				continue
			}
			delete(free, result.Device)
		}
	}
	for _, kind := range free {
		left.devices[kind]++
	}
	return left, nil
}

// onNode reports whether a pod counts on its node. The kubelet lets a deleted pod end before it goes.
func onNode(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// cpusOf returns the CPUs that kubelet and schedulers count for a pod.
func cpusOf(pod *corev1.Pod) resource.Quantity {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseDRANodeAllocatableResourceClaimStatus: true})[corev1.ResourceCPU]
}

// nodeWatch adds up the CPUs of the pods on a node whenever one of them changes. The informer shows every write in its order.
type nodeWatch struct {
	mutex sync.Mutex
	pods  map[types.UID]*corev1.Pod
	wrong []string
}

// watchNode watches the pods of the space until the end of the test.
func (b *burst) watchNode() *nodeWatch {
	w := &nodeWatch{pods: make(map[types.UID]*corev1.Pod)}
	informer := b.Cluster.Informers.Core().V1().Pods().Informer()
	registration, err := informer.AddEventHandler(cache.FilteringResourceEventHandler{
		FilterFunc: func(object any) bool {
			pod, isPod := object.(*corev1.Pod)
			return !isPod || pod.Namespace == b.Name
		},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(pod any) { w.saw(pod, false) },
			UpdateFunc: func(_, pod any) { w.saw(pod, false) },
			DeleteFunc: func(pod any) { w.saw(pod, true) },
		},
	})
	require.NoError(b.T, err)
	b.T.Cleanup(func() { require.NoError(b.T, informer.RemoveEventHandler(registration)) })
	return w
}

func (w *nodeWatch) saw(object any, gone bool) {
	if tombstone, isTombstone := object.(cache.DeletedFinalStateUnknown); isTombstone {
		object = tombstone.Obj
	}
	pod := object.(*corev1.Pod)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if delete(w.pods, pod.UID); !gone && onNode(pod) {
		w.pods[pod.UID] = pod
	}
	var sum resource.Quantity
	var parts []string
	for _, other := range w.pods {
		takes := cpusOf(other)
		sum.Add(takes)
		parts = append(parts, other.Name+": "+takes.String())
		if len(other.Status.NodeAllocatableResourceClaimStatuses) != len(other.Spec.ResourceClaims) {
			w.wrong = append(w.wrong, "the status of pod "+other.Name+" on the node does not say what its devices take")
		}
	}
	if sum.CmpInt64(burstCPUs) > 0 {
		w.wrong = append(w.wrong, fmt.Sprintf("at version %s pods take %s CPUs of %d: %s", pod.ResourceVersion, sum.String(), burstCPUs, strings.Join(parts, " ")))
	}
}

// refused returns when the kubelet would have refused a pod.
func (w *nodeWatch) refused() []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Clone(w.wrong)
}
