package factory

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// written is the API server's record of an object's writers.
var written = []metav1.ManagedFieldsEntry{{Manager: "test"}}

// randomSlice returns a slice with many equal and some different parts.
func randomSlice(r *rand.Rand) *resourceapi.ResourceSlice {
	var devices []*builder.DeviceBuilder
	for i := range 1 + r.IntN(4) {
		d := builder.Device(fmt.Sprint("gpu-", i)).Attr("model", fmt.Sprint("model-", r.IntN(2))).Attr("index", r.IntN(2)).Attr("fast", r.IntN(2) == 0)
		switch r.IntN(4) {
		case 0:
			d.Capacity("memory", fmt.Sprint(1+r.IntN(2), "Gi"))
		case 1:
			d.Capacity("memory", fmt.Sprint(1024*(1+r.IntN(2)), "Mi")).Capacity("cores", "8")
		case 2:
			d.Capacity("memory", "8Gi").Policy("memory", resourceapi.CapacityRequestPolicy{
				ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: ptrTo(resource.MustParse(fmt.Sprint(1+r.IntN(2), "Gi")))},
			})
		}
		if r.IntN(2) == 0 {
			d.Attr("version", builder.Version(fmt.Sprint("1.", r.IntN(2), ".0")))
		}
		for range r.IntN(2) * smallMap {
			d.Attr(fmt.Sprint("more-", r.IntN(100)), r.IntN(2))
		}
		devices = append(devices, d)
	}
	return builder.NodeSlice(fmt.Sprint("n", r.IntN(3)), devices...).Obj()
}

func ptrTo[T any](value T) *T { return &value }

// TestSameAsBefore: apart from managedFields, slices and claims stay equal, even after a second transformation and
// with many others in between.
func TestSameAsBefore(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	c := newContents()
	c.capacities.most = 2 * capacitySize(50)
	trimSlice, trimClaim, trimNode := transform(c.slice), transform(c.claim), transform(c.node)
	var kept, before []any
	for i := range 300 {
		slice := randomSlice(r)
		claim := builder.Claim(fmt.Sprint("c", i), builder.Request("gpu", fmt.Sprint("class-", r.IntN(3)))).Obj()
		if r.IntN(2) == 0 {
			claim = builder.Claim(fmt.Sprint("c", i), builder.Request("gpu", "gpu")).Allocated(fmt.Sprint("n", r.IntN(4)), "gpu-0")
			claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: fmt.Sprint("p", i)}}
		}
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: fmt.Sprint("p", i)}}
		claim.Annotations = map[string]string{"resource.kubernetes.io/pod-claim-name": "one"}
		node := builder.Node(fmt.Sprint("n", i), "zone", fmt.Sprint("zone-", r.IntN(3)))
		node.Status.Images = []v1.ContainerImage{{Names: []string{fmt.Sprint("image-", r.IntN(3))}}}
		before = append(before, slice.DeepCopy(), claim.DeepCopy(), node.DeepCopy())
		slice.ManagedFields, claim.ManagedFields, node.ManagedFields = written, written, written
		for range 1 + r.IntN(2) {
			for trim, object := range map[*cache.TransformFunc]any{&trimSlice: slice, &trimClaim: claim, &trimNode: node} {
				got, err := (*trim)(object)
				require.NoError(t, err)
				require.Same(t, object, got)
			}
		}
		kept = append(kept, slice, claim, node)
	}
	for i := range kept {
		require.True(t, apiequality.Semantic.DeepEqual(before[i], kept[i]), "%+v\n%+v", before[i], kept[i])
	}
}

// TestShared: what is the same in two objects is there once.
func TestShared(t *testing.T) {
	t.Parallel()
	c := newContents()
	device := func(name, model string) *builder.DeviceBuilder {
		return builder.Device(name).Attr("model", model).Attr("uuid", name).Capacity("memory", "80Gi")
	}
	one, two := builder.NodeSlice("n1", device("a", "large"), device("b", "large")).Obj(), builder.NodeSlice("n2", device("c", "large")).Obj()
	c.slice(one)
	c.slice(two)
	sameMap := func(a, b map[resourceapi.QualifiedName]resourceapi.DeviceCapacity) bool {
		a["probe"] = resourceapi.DeviceCapacity{}
		defer delete(a, "probe")
		_, found := b["probe"]
		return found
	}
	require.True(t, sameMap(one.Spec.Devices[0].Capacity, one.Spec.Devices[1].Capacity))
	require.True(t, sameMap(one.Spec.Devices[0].Capacity, two.Spec.Devices[0].Capacity))
	require.NotNil(t, one.Spec.Devices[0].Attributes["model"].StringValue)
	require.Same(t, one.Spec.Devices[0].Attributes["model"].StringValue, one.Spec.Devices[1].Attributes["model"].StringValue)
	other := builder.NodeSlice("n3", device("d", "large").Capacity("memory", "40Gi")).Obj()
	c.slice(other)
	require.False(t, sameMap(one.Spec.Devices[0].Capacity, other.Spec.Devices[0].Capacity))

	first := builder.Claim("a", builder.Request("gpu", "gpu")).Allocated("n1", "gpu-0")
	second := builder.Claim("b", builder.Request("gpu", "gpu")).Allocated("n1", "gpu-1")
	c.claim(first)
	c.claim(second)
	require.Same(t, &first.Spec.Devices.Requests[0], &second.Spec.Devices.Requests[0])
	first, second = builder.Claim("c", builder.Request("gpu", "gpu")).Allocated("n1", "gpu-0"), builder.Claim("d", builder.Request("gpu", "gpu")).Allocated("n1", "gpu-1")
	first.Status.Allocation.NodeSelector, second.Status.Allocation.NodeSelector = builder.NodeSelector("a", "b"), builder.NodeSelector("a", "b")
	c.claim(first)
	c.claim(second)
	require.Same(t, first.Status.Allocation.NodeSelector, second.Status.Allocation.NodeSelector)
}

// TestInformers: the informers of a factory keep what is left; others are not touched.
func TestInformers(t *testing.T) {
	t.Parallel()
	node, class := builder.Node("n1"), builder.Class("gpu")
	node.ManagedFields, class.ManagedFields = written, written
	factory := informers.NewSharedInformerFactory(fake.NewClientset(node, class), 0)
	classes := factory.Resource().V1().DeviceClasses().Lister()
	require.NoError(t, Informers(factory))
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	kept, err := factory.Core().V1().Nodes().Lister().Get("n1")
	require.NoError(t, err)
	require.Empty(t, kept.ManagedFields)
	untouched, err := classes.Get("gpu")
	require.NoError(t, err)
	require.NotEmpty(t, untouched.ManagedFields)
	require.Error(t, Informers(factory), "they run already")
	tombstone := cache.DeletedFinalStateUnknown{Key: "n1"}
	same, err := transform(newContents().node)(tombstone)
	require.NoError(t, err)
	require.Equal(t, tombstone, same)
}

// TestTrimmedOnce: what was trimmed before is left alone, and what only looks like it is not.
func TestTrimmedOnce(t *testing.T) {
	t.Parallel()
	c := newContents()
	node := builder.Node("n1", "zone", "a")
	c.node(node)
	require.NotNil(t, node.ManagedFields)
	labels := node.Labels
	c.node(node)
	labels["probe"] = ""
	require.Contains(t, node.Labels, "probe", "it is the same map")
	node.ManagedFields = written
	c.node(node)
	delete(labels, "probe")
	require.Contains(t, node.Labels, "probe", "it is another one")
	require.Empty(t, node.ManagedFields)
}
