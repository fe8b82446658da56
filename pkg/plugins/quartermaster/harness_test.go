package quartermaster

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/quartermaster-dra/quartermaster/internal/classicdra"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	arguments "github.com/quartermaster-dra/quartermaster/internal/config"
)

// fixture is the plugin in a scheduler without queue: with informers, the shared
// manager of claims and a server. It lives in a bubble of testing/synctest, where
// time passes only when everybody waits. Tests thus see real pauses but do not
// take them, and settle knows when all events have been handled.
type fixture struct {
	*server
	ctx      context.Context
	stop     context.CancelFunc
	factory  informers.SharedInformerFactory
	pl       *Quartermaster
	recorder *events.FakeRecorder
	activator
	nominator nominator
	// assume hands a claim event to the scheduler's shared manager of claims, and
	// classes one about a class to its cache of extended resources.
	assume, classes cache.ResourceEventHandler
	// running holds pods that the scheduler's snapshot has on nodes.
	running []*v1.Pod
}

// activator records which pods the plugin moved to the active queue.
type activator struct {
	mutex     sync.Mutex
	activated []string
}

func (a *activator) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for name := range pods {
		a.activated = append(a.activated, name)
	}
	slices.Sort(a.activated)
}

// nominator has the pods that are nominated for each node.
type nominator struct {
	fwk.PodNominator
	nominees map[string][]fwk.PodInfo
}

// NominatedPodsForNode implements fwk.PodNominator.
func (n *nominator) NominatedPodsForNode(node string) []fwk.PodInfo { return n.nominees[node] }

// names returns the pods activated so far.
func (a *activator) names() []string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return slices.Clone(a.activated)
}

// forget clears names.
func (a *activator) forget() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.activated = nil
}

func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] // Another one sleeps by a clock that began outside the bubbles.
	os.Exit(m.Run())
}

// inCluster runs a test with a plugin that knows all objects.
func inCluster(t *testing.T, objects []runtime.Object, test func(t *testing.T, f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, startServer(t, objects...), "default")
		f.start()
		test(t, f)
	})
}

// beforeEvents runs a test with a plugin that has received no events: informers do not run, and objects get into their
// stores only with arrive. The scheduler may ask for hints in this state, before the plugin's own handlers have run.
func beforeEvents(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, startServer(t), "default")
		f.pl.state.Begin()
		test(t, f)
	})
}

// newFixture makes a plugin whose informers have not been started. When the test
// ends, nothing may be left in flight.
func newFixture(t *testing.T, s *server, profile string) *fixture {
	f := &fixture{server: s, recorder: events.NewFakeRecorder(100)}
	f.ctx, f.stop = context.WithCancel(klog.NewContext(context.Background(), ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(1)))))
	f.factory = informers.NewSharedInformerFactory(s.client, 0)
	t.Cleanup(func() {
		if t.Failed() {
			// Unblock requests that wait for the server; otherwise some would never end.
			f.recoverNow()
			time.Sleep(time.Minute)
		}
		f.settleEvictions()
		f.stop()
		f.factory.Shutdown()
		if f.pl != nil && f.pl.state.Ledger.InFlightCount() > 0 {
			t.Errorf("%d allocations are in flight at the end", f.pl.state.Ledger.InFlightCount())
		}
	})
	manager := f.newManager()
	handle, err := frameworkruntime.NewFramework(f.ctx, nil, &config.KubeSchedulerProfile{SchedulerName: profile},
		frameworkruntime.WithClientSet(s.client),
		frameworkruntime.WithInformerFactory(f.factory),
		frameworkruntime.WithSharedDRAManager(manager),
		frameworkruntime.WithEventRecorder(f.recorder),
		frameworkruntime.WithPodActivator(&f.activator),
		frameworkruntime.WithPodNominator(&f.nominator),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
	)
	require.NoError(t, err)
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	state, err := sharedBy(context.Background(), handle, features)
	require.NoError(t, err)
	state.Lease = new(lease.Lease) // Tests run at once, in one process.
	// A look for a guard would wait for tests that hold up the server, and time would stand still.
	state.looking.Do(func() {})
	plugin, err := New(f.ctx, nil, handle)
	require.NoError(t, err)
	f.pl = plugin.(*Quartermaster)
	f.pl.takeover.Duration = 0 // Tests that are about it set it.
	return f
}

// newManager creates the manager of claims and classes that the scheduler shares with plugins. It needs no slices: the
// plugin has its own inventory.
func (f *fixture) newManager() *dynamicresources.DefaultDRAManager {
	claims := assumecache.NewAssumeCache(klog.FromContext(f.ctx), f, "ResourceClaim", "", nil)
	manager := dynamicresources.NewDRAManager(f.ctx, claims, nil, f.factory)
	f.classes = manager.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache)
	_, err := f.factory.Resource().V1().DeviceClasses().Informer().AddEventHandler(f.classes)
	require.NoError(f.t, err)
	return manager
}

// AddEventHandler implements assumecache.Informer for the manager of claims: it
// hears from the real informer, and from arrive.
func (f *fixture) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	f.assume = handler
	return f.factory.Resource().V1().ResourceClaims().Informer().AddEventHandler(handler)
}

// start runs the informers and waits until all is known.
func (f *fixture) start() {
	f.factory.StartWithContext(f.ctx)
	f.settle()
	require.NoError(f.t, f.pl.state.Sync(f.ctx))
}

// settle waits until all events have been handled and all goroutines wait.
func (f *fixture) settle() { synctest.Wait() }

// settleEvictions also waits for evictions. They look at intervals whether the deletion of a victim is seen.
func (f *fixture) settleEvictions() {
	f.settle()
	time.Sleep(time.Second)
	f.settle()
}

// restart returns a new plugin on the same server, as after a crash: only the server's state is left. before runs before the
// informers do.
func (f *fixture) restart(before ...func(*fixture)) *fixture {
	f.dropInFlight()
	f.stop()
	f.factory.Shutdown()
	again := newFixture(f.t, f.server, "default")
	for _, do := range before {
		do(again)
	}
	again.start()
	return again
}

// dropInFlight forgets what is in flight, as the end of the process does.
func (f *fixture) dropInFlight() {
	for uid := range f.inFlight() {
		for _, user := range f.pl.state.Ledger.UseOf(uid).InFlight {
			f.pl.state.Ledger.RemoveInFlight(uid, user)
		}
	}
}

// indexerOf returns the informer's store for objects of that type.
func (f *fixture) indexerOf(obj runtime.Object) cache.Indexer {
	switch obj.(type) {
	case *resourceapi.ResourceClaim:
		return f.factory.Resource().V1().ResourceClaims().Informer().GetIndexer()
	case *resourceapi.ResourceSlice:
		return f.factory.Resource().V1().ResourceSlices().Informer().GetIndexer()
	case *resourceapi.DeviceTaintRule:
		return f.factory.Resource().V1().DeviceTaintRules().Informer().GetIndexer()
	case *resourceapi.DeviceClass:
		return f.factory.Resource().V1().DeviceClasses().Informer().GetIndexer()
	case *v1.Pod:
		return f.factory.Core().V1().Pods().Informer().GetIndexer()
	case *v1.Node:
		return f.factory.Core().V1().Nodes().Informer().GetIndexer()
	}
	f.t.Fatalf("no informer for %T", obj)
	return nil
}

// arrive puts objects into the informers' stores and makes claims and classes known
// to the scheduler's manager, but runs none of the plugin's handlers.
func (f *fixture) arrive(objects ...runtime.Object) {
	for _, obj := range objects {
		require.NoError(f.t, f.indexerOf(obj).Update(obj))
		switch obj.(type) {
		case *resourceapi.ResourceClaim:
			f.assume.OnAdd(obj, false)
		case *resourceapi.DeviceClass:
			f.classes.OnAdd(obj, false)
		}
	}
}

// leave is the opposite of arrive.
func (f *fixture) leave(objects ...runtime.Object) {
	for _, obj := range objects {
		require.NoError(f.t, f.indexerOf(obj).Delete(obj))
		if _, isClaim := obj.(*resourceapi.ResourceClaim); isClaim {
			f.assume.OnDelete(obj)
		}
	}
}

// newProfile makes another plugin in the same scheduler, as for a second profile.
func newProfile(f *fixture, profile string, args ...runtime.Object) *Quartermaster {
	return makePlugin(f, profile, append(args, nil)[0]).(*Quartermaster)
}

// makePlugin makes the plugin of a profile.
func makePlugin(f *fixture, profile string, args runtime.Object) fwk.Plugin {
	handle, err := frameworkruntime.NewFramework(f.ctx, nil, &config.KubeSchedulerProfile{SchedulerName: profile},
		frameworkruntime.WithClientSet(f.client),
		frameworkruntime.WithInformerFactory(f.factory),
		frameworkruntime.WithSharedDRAManager(f.pl.handle.SharedDRAManager()),
		frameworkruntime.WithEventRecorder(f.recorder),
		frameworkruntime.WithPodActivator(&f.activator),
		frameworkruntime.WithPodNominator(&f.nominator),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
	)
	require.NoError(f.t, err)
	plugin, err := New(f.ctx, args, handle)
	require.NoError(f.t, err)
	return plugin
}

// olderServers returns the parts of the plugin that handle claims of older servers.
func (f *fixture) olderServers() classicdra.Scheduler {
	return classicdra.Scheduler{
		Claims: f.pl.claims, Classes: f.pl.handle.SharedDRAManager().DeviceClasses(), Nodes: f.pl.nodes,
		Waiting: f.pl.waiting, Waker: f.pl.waker, Asker: f.pl.writer,
	}
}

// support makes the plugin handle claims of an older server, which the fake client set is not.
func (f *fixture) support(mode *classicdra.Mode) {
	f.pl.legacy, f.pl.needs.Controllers = mode, mode
	supported := arguments.AllocatorFeatures(f.pl.features)
	f.pl.solver = f.pl.newSolver(supported, f.pl.refusesOfNode())
	f.pl.plainSolver = f.pl.solver
}
