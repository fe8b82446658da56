package factory

import (
	"fmt"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// lazyInformer builds each added index at its first lookup. kube-scheduler adds an index of slices by device, and
// needs it only for DeviceTaintRules: in a cluster without them it would take half as much memory as the slices.
type lazyInformer struct {
	cache.SharedIndexInformer
	indexer *lazyIndexer
}

// lazySlices makes the factory's informer for ResourceSlices lazy, unless it already exists.
func lazySlices(factory informers.SharedInformerFactory) cache.SharedIndexInformer {
	return resourceinformers.New(lazyFactory{factory}, metav1.NamespaceAll, nil).ResourceSlices().Informer()
}

// lazyFactory makes new informers lazy.
type lazyFactory struct {
	informers.SharedInformerFactory
}

// InformerFor is the method by which the typed informers of a factory create their informer.
func (f lazyFactory) InformerFor(obj runtime.Object, construct internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return f.SharedInformerFactory.InformerFor(obj, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		informer := construct(client, resync)
		return &lazyInformer{informer, &lazyIndexer{Indexer: informer.GetIndexer()}}
	})
}

func (i *lazyInformer) GetIndexer() cache.Indexer { return i.indexer }

func (i *lazyInformer) AddIndexers(indexers cache.Indexers) error {
	if i.IsStopped() {
		return i.SharedIndexInformer.AddIndexers(indexers) // It returns an error.
	}
	return i.indexer.AddIndexers(indexers)
}

// lazyIndexer is the store of a lazyInformer.
type lazyIndexer struct {
	cache.Indexer
	mutex sync.Mutex
	// unused has the indexers without any lookup so far.
	unused cache.Indexers
}

func (x *lazyIndexer) AddIndexers(indexers cache.Indexers) error {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	all := x.all()
	for name := range indexers {
		if _, found := all[name]; found {
			return fmt.Errorf("add index %q to an informer: it has one of that name; choose another name", name)
		}
	}
	maps.Copy(all, indexers)
	for name := range x.Indexer.GetIndexers() {
		delete(all, name)
	}
	x.unused = all
	return nil
}

func (x *lazyIndexer) GetIndexers() cache.Indexers {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	return x.all()
}

func (x *lazyIndexer) all() cache.Indexers {
	all := maps.Clone(x.Indexer.GetIndexers())
	maps.Copy(all, x.unused)
	return all
}

// use builds an index before its first lookup. It covers the current and all later objects of the store.
func (x *lazyIndexer) use(name string) error {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	function, unused := x.unused[name]
	if !unused {
		return nil
	}
	if err := x.Indexer.AddIndexers(cache.Indexers{name: function}); err != nil {
		return err
	}
	delete(x.unused, name)
	return nil
}

func (x *lazyIndexer) Index(name string, obj any) ([]any, error) {
	if err := x.use(name); err != nil {
		return nil, err
	}
	return x.Indexer.Index(name, obj)
}

func (x *lazyIndexer) IndexKeys(name, value string) ([]string, error) {
	if err := x.use(name); err != nil {
		return nil, err
	}
	return x.Indexer.IndexKeys(name, value)
}

func (x *lazyIndexer) ByIndex(name, value string) ([]any, error) {
	if err := x.use(name); err != nil {
		return nil, err
	}
	return x.Indexer.ByIndex(name, value)
}

func (x *lazyIndexer) ListIndexFuncValues(name string) []string {
	if x.use(name) != nil {
		return nil
	}
	return x.Indexer.ListIndexFuncValues(name)
}
