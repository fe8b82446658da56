package factory

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// byDriver is an index, and how often a slice was looked at for it.
func byDriver(asked *int) cache.Indexers {
	return cache.Indexers{"driver": func(obj any) ([]string, error) {
		*asked++
		return []string{obj.(*resourceapi.ResourceSlice).Spec.Driver}, nil
	}}
}

// TestLazyIndex: an index costs nothing before its first use, and then has all existing and later objects.
func TestLazyIndex(t *testing.T) {
	t.Parallel()
	for name, lookUp := range map[string]func(cache.Indexer, *resourceapi.ResourceSlice) (int, error){
		"ByIndex": func(x cache.Indexer, s *resourceapi.ResourceSlice) (int, error) {
			found, err := x.ByIndex("driver", s.Spec.Driver)
			return len(found), err
		},
		"IndexKeys": func(x cache.Indexer, s *resourceapi.ResourceSlice) (int, error) {
			found, err := x.IndexKeys("driver", s.Spec.Driver)
			return len(found), err
		},
		"Index": func(x cache.Indexer, s *resourceapi.ResourceSlice) (int, error) {
			found, err := x.Index("driver", s)
			return len(found), err
		},
		"ListIndexFuncValues": func(x cache.Indexer, s *resourceapi.ResourceSlice) (int, error) {
			if values := x.ListIndexFuncValues("driver"); len(values) != 1 || values[0] != s.Spec.Driver {
				return 0, nil
			}
			found, err := x.ByIndex("driver", s.Spec.Driver)
			return len(found), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			informer := lazySlices(informers.NewSharedInformerFactory(fake.NewClientset(), 0))
			require.NoError(t, informer.AddIndexers(byDriver(&asked)))
			require.Contains(t, informer.GetIndexer().GetIndexers(), "driver")
			slice := builder.NodeSlice("n1", builder.Devices("gpu-0")...).Obj()
			require.NoError(t, informer.GetStore().Add(slice))
			require.Zero(t, asked)
			for more := range 2 {
				found, err := lookUp(informer.GetIndexer(), slice)
				require.NoError(t, err)
				require.Equal(t, 1+more, found)
				require.NoError(t, informer.GetStore().Add(builder.NodeSlice("n2", builder.Devices("gpu-0")...).Obj()))
			}
			require.Contains(t, informer.GetIndexer().GetIndexers(), "driver")
		})
	}
}

func TestLazyIndexOnce(t *testing.T) {
	t.Parallel()
	asked := 0
	informer := lazySlices(informers.NewSharedInformerFactory(fake.NewClientset(), 0))
	require.ErrorContains(t, informer.AddIndexers(cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}), `index "namespace"`)
	require.NoError(t, informer.AddIndexers(byDriver(&asked)))
	require.ErrorContains(t, informer.AddIndexers(byDriver(&asked)), `index "driver"`, "unused so far")
	_, err := informer.GetIndexer().ByIndex("driver", "")
	require.NoError(t, err)
	require.ErrorContains(t, informer.GetIndexer().AddIndexers(byDriver(&asked)), `index "driver"`)
	_, err = informer.GetIndexer().ByIndex("other", "")
	require.Error(t, err, "nobody has added it")
}

// TestDeviceTaintRules: kube-scheduler's index of slices by device is there once there is a rule, and the rule is applied.
func TestDeviceTaintRules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slice := builder.NodeSlice("n1", builder.Devices("gpu-0", "gpu-1")...).Obj()
		client := fake.NewClientset(slice, builder.NodeSlice("n2", builder.Devices("gpu-0")...).Obj())
		factory := informers.NewSharedInformerFactory(client, 0)
		require.NoError(t, Informers(factory))
		api := factory.Resource().V1()
		patched, err := tracker.StartTracker(t.Context(), tracker.Options{EnableDeviceTaintRules: true, SliceInformer: api.ResourceSlices(), TaintInformer: api.DeviceTaintRules()})
		require.NoError(t, err)
		defer patched.Stop()
		lazy, ok := api.ResourceSlices().Informer().GetIndexer().(*lazyIndexer)
		require.True(t, ok)
		factory.StartWithContext(t.Context())
		synctest.Wait()
		require.Len(t, lazy.unused, 1)

		rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Pool: &slice.Spec.Pool.Name},
			Taint:          resourceapi.DeviceTaint{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule},
		}}
		_, err = client.ResourceV1().DeviceTaintRules().Create(t.Context(), rule, metav1.CreateOptions{})
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, lazy.unused)
		found, err := patched.ListPatchedResourceSlices()
		require.NoError(t, err)
		require.Len(t, found, 2)
		for _, s := range found {
			for _, device := range s.Spec.Devices {
				require.Equal(t, s.Name == slice.Name, len(device.Taints) == 1, "%s of %s", device.Name, s.Name)
			}
		}
	})
}
