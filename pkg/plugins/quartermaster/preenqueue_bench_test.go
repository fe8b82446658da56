package quartermaster

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// gatedPods are the pods that the scheduling queue asks about, with what becomes of them.
var gatedPods = map[string]struct {
	pod    *v1.Pod
	passes bool
}{
	"named claim":         {newPod("p", uses("c")), true},
	"two named claims":    {newPod("p", uses("c"), uses("d")), true},
	"claim of template":   {newPod("p", template("gpu"), made("gpu", "p-gpu")), true},
	"template, not made":  {newPod("p", template("gpu")), false},
	"claim does not show": {newPod("p", template("gpu"), made("gpu", "p-other")), false},
}

// besideInTree returns this plugin and the in-tree one in the same scheduler.
func besideInTree(tb testing.TB) (ours, theirs fwk.PreEnqueuePlugin) {
	tb.Helper()
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	claims := []runtime.Object{gpus("c", 1).Obj(), gpus("d", 1).Obj(), with(gpus("p-gpu", 1).Obj(), ownedBy("p"))}
	for _, claim := range claims {
		claim.(*resourceapi.ResourceClaim).ResourceVersion = "1"
	}
	client := fake.NewClientset(claims...)
	factory := informers.NewSharedInformerFactory(client, 0)
	tb.Cleanup(func() {
		stop()
		factory.Shutdown()
	})
	informer := factory.Resource().V1().ResourceClaims().Informer()
	cache := assumecache.NewAssumeCache(klog.Logger{}, informer, "ResourceClaim", "", nil)
	handle, err := frameworkruntime.NewFramework(ctx, nil, &config.KubeSchedulerProfile{SchedulerName: "default"},
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSharedDRAManager(dynamicresources.NewDRAManager(ctx, cache, nil, factory)),
		frameworkruntime.WithEventRecorder(events.NewFakeRecorder(100)),
		frameworkruntime.WithPodActivator(&activator{}),
	)
	require.NoError(tb, err)
	inTree, err := dynamicresources.New(ctx, &config.DynamicResourcesArgs{FilterTimeout: &metav1.Duration{Duration: time.Second}}, handle,
		feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	require.NoError(tb, err)
	own, err := New(ctx, nil, handle)
	require.NoError(tb, err)
	factory.StartWithContext(ctx)
	factory.WaitForCacheSync(ctx.Done())
	require.Eventually(tb, func() bool {
		_, err := cache.Get(builder.Namespace + "/p-gpu")
		return err == nil
	}, 3*time.Minute, time.Millisecond, "the scheduler's manager hears of the claims")
	return own.(fwk.PreEnqueuePlugin), inTree.(fwk.PreEnqueuePlugin)
}

// BenchmarkPreEnqueue measures both plugins alternately, so that other load on the machine affects both. The metric
// of-in-tree is the ratio of Quartermaster's time to the in-tree plugin's.
func BenchmarkPreEnqueue(b *testing.B) {
	ours, theirs := besideInTree(b)
	const turn = 1000
	measure := func(plugin fwk.PreEnqueuePlugin, pod *v1.Pod) time.Duration {
		start := time.Now()
		for range turn {
			plugin.PreEnqueue(context.Background(), pod)
		}
		return time.Since(start)
	}
	for name, test := range gatedPods {
		b.Run(name, func(b *testing.B) {
			var own, inTree time.Duration
			for b.Loop() {
				own += measure(ours, test.pod)
				inTree += measure(theirs, test.pod)
			}
			calls := float64(b.N * turn)
			b.ReportMetric(float64(own)/calls, "ns/own")
			b.ReportMetric(float64(inTree)/calls, "ns/in-tree")
			b.ReportMetric(float64(own)/float64(inTree), "of-in-tree")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// TestPreEnqueueAllocatesNoMore: the queue asks about each pod of a waiting group after each
// update of one of them, a million times for a thousand pods.
func TestPreEnqueueAllocatesNoMore(t *testing.T) {
	ours, theirs := besideInTree(t)
	for name, test := range gatedPods {
		for _, plugin := range []fwk.PreEnqueuePlugin{ours, theirs} {
			status := plugin.PreEnqueue(t.Context(), test.pod)
			require.Equal(t, test.passes, status.IsSuccess(), "%s: %v", name, status)
		}
		allocations := func(plugin fwk.PreEnqueuePlugin) float64 {
			return testing.AllocsPerRun(100, func() { plugin.PreEnqueue(context.Background(), test.pod) })
		}
		require.LessOrEqual(t, allocations(ours), allocations(theirs), name)
	}
}
