package simulation

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	schedulinginformers "k8s.io/client-go/informers/scheduling/v1beta1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/devicetainteviction"
	"k8s.io/kubernetes/pkg/controller/resourceclaim"
	"k8s.io/kubernetes/pkg/controller/scheduling/podgroupprotection"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

const (
	// mostFailures and mostRequests are limits of a history, far above the usual numbers. A history that exceeds one is ended: it
	// repeats something endlessly, would take minutes, and could not be shrunk.
	mostFailures = 50
	mostRequests = 50_000
)

// World is a cluster: an API server in memory, controllers, nodes, and replicas of our scheduler.
type World struct {
	ctx    context.Context
	cancel context.CancelFunc
	seed   uint64
	server *Server
	// client is the client of the history's own steps; its requests never fail.
	client     kubernetes.Interface
	configured config.KubeSchedulerConfiguration
	weather    Weather
	flush      time.Duration
	replicas   []*replica
	group      sync.WaitGroup
	began      time.Time
	// pods holds a value while the kubelets have to look at their pods.
	pods chan struct{}

	// controllers is the connection of kube-controller-manager.
	controllers *Connection
	// guard is nil if there is none.
	guard *guardProcess

	// slowEnds is set if some pods take long to end.
	slowEnds bool
	// clocks is set if the clocks of the schedulers' machines may be wrong.
	clocks bool
	// attaching is the driver's behaviour towards devices that have binding conditions; nil if there are none.
	attaching atomic.Pointer[attaching]
	// published holds the devices, capacities and counters that drivers have published.
	published *published
	// attempts counts the attempts after which a pod could not be scheduled.
	attempts attempts
	// contested is set once the foreign scheduler and ours have allocated the same device.
	contested atomic.Bool
	// overlaps is set once a write of a process has arrived after its end: its successor may have allocated the same devices.
	overlaps atomic.Bool

	mutex    sync.Mutex
	told     []string
	failures []string
	// givenUp is set once the history is ended early. Later failures are only consequences of that.
	givenUp bool
}

// NewWorld returns a world in which everything except the schedulers runs.
func NewWorld(seed uint64) *World {
	ctx, cancel := context.WithCancel(context.Background())
	w := &World{ctx: ctx, cancel: cancel, seed: seed, server: NewServer(), weather: Calm, flush: time.Hour, published: newPublished(), began: time.Now(), pods: make(chan struct{}, 1)}
	w.attempts.fail = w.fail
	w.server.tooMany = func() {
		w.giveUp("the history is ended after %d requests, mostly: %s", mostRequests, strings.Join(w.server.most(), "; "))
	}
	w.client = kubernetes.NewForConfigOrDie(configOf(w.server.Connect(seed, Weather{}), "world"))
	w.controllers = w.server.Connect(seed+100, atOnce)
	w.server.store.changed = w.check
	w.group.Go(w.kubelet)
	w.group.Go(w.garbageCollector)
	return w
}

// Replicas starts schedulers.
func (w *World) Replicas(n int) {
	for i := range n {
		r := &replica{world: w, name: fmt.Sprintf("scheduler-%d", i), scheduler: builder.SchedulerName, configured: w.configured}
		w.launch(r)
	}
}

// Second starts another of our schedulers, with a profile of its own.
func (w *World) Second() {
	r := &replica{world: w, name: others + "-0", scheduler: others, configured: *w.configured.DeepCopy()}
	for i := range r.configured.Profiles {
		r.configured.Profiles[i].SchedulerName = others
	}
	w.launch(r)
}

// launch starts a process, on a machine of its own.
func (w *World) launch(r *replica) {
	if w.clocks {
		r.clock = &clock{}
	}
	w.replicas = append(w.replicas, r)
	r.start()
	w.group.Go(r.keepRunning)
}

// Controllers starts the controllers of kube-controller-manager that matter.
func (w *World) Controllers() error {
	client := kubernetes.NewForConfigOrDie(configOf(w.controllers, "kube-controller-manager"))
	factory := informers.NewSharedInformerFactory(client, 0)
	pods, api := factory.Core().V1().Pods(), factory.Resource().V1()
	var groups schedulinginformers.PodGroupInformer
	if utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload) {
		groups = factory.Scheduling().V1beta1().PodGroups()
		protection, err := podgroupprotection.NewPodGroupProtectionController(klog.Background(), groups, pods, client)
		if err != nil {
			return err
		}
		w.group.Go(func() { protection.Run(w.ctx, 1) })
	}
	claims, err := resourceclaim.NewController(klog.Background(), client, pods, groups, api.ResourceClaims(), api.ResourceClaimTemplates())
	if err != nil {
		return err
	}
	taints := devicetainteviction.New(client, pods, api.ResourceClaims(), api.ResourceSlices(), api.DeviceTaintRules(), api.DeviceClasses(), "device-taint-eviction")
	factory.Start(w.ctx.Done())
	w.group.Go(func() { claims.Run(w.ctx, 2) })
	w.group.Go(func() { _ = taints.Run(w.ctx, 2) })
	w.group.Go(func() { <-w.ctx.Done(); factory.Shutdown() })
	return nil
}

// afterwards is the time in which goroutines with a timeout of their own may go on after the end.
const afterwards = 2 * time.Minute

// End ends everything, and returns when no goroutine is left.
func (w *World) End() {
	w.cancel()
	for _, r := range w.replicas {
		r.connection.Close()
		<-r.ended
	}
	w.group.Wait()
	time.Sleep(afterwards) // for goroutines that would end with a real process
}

// note adds a line to the transcript.
func (w *World) note(format string, args ...any) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.told = append(w.told, w.line(fmt.Sprintf(format, args...)))
}

// line returns a line of the transcript, with its time.
func (w *World) line(text string) string {
	return fmt.Sprintf("%9.3fs  ", time.Since(w.began).Seconds()) + text
}

// fail records a failure.
func (w *World) fail(format string, args ...any) {
	if n := w.addFailure(fmt.Sprintf(format, args...)); n == mostFailures-1 {
		w.giveUp("the history is ended after %d failures", mostFailures)
	}
}

// addFailure adds a failure and returns their number, 0 if the history was given up.
func (w *World) addFailure(text string) int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.givenUp {
		return 0
	}
	w.told = append(w.told, w.line("!! "+text))
	w.failures = append(w.failures, text)
	return len(w.failures)
}

// giveUp ends a history early, with a last failure.
func (w *World) giveUp(format string, args ...any) {
	w.addFailure(fmt.Sprintf(format, args...))
	w.mutex.Lock()
	w.givenUp = true
	w.mutex.Unlock()
	w.cancel()
}

// Transcript returns the record of the history.
func (w *World) Transcript() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return strings.Join(w.told, "\n")
}
