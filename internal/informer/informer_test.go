package informer

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestObject(t *testing.T) {
	t.Parallel()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	require.NoError(t, store.Add(pod))
	require.Same(t, pod, Object[v1.Pod](store, "default/p"))
	require.Nil(t, Object[v1.Pod](store, "default/other"))
	require.Nil(t, Object[v1.Node](store, "default/p"))
}

func TestVersions(t *testing.T) {
	t.Parallel()
	pod := &v1.Pod{}
	before, after := Versions[v1.Pod](cache.DeletedFinalStateUnknown{Key: "default/p", Obj: pod}, nil)
	require.Same(t, pod, before)
	require.Nil(t, after)
	before, after = Versions[v1.Pod](nil, pod)
	require.Nil(t, before)
	require.Same(t, pod, after)
	before, _ = Versions[v1.Pod](&v1.Node{}, pod)
	require.Nil(t, before)
}
