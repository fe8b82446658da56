package eligibility_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/eligibility"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/builder/stub"
)

const gpu = "example.com/gpu"

// cluster is the input of the describer.
type cluster struct {
	nodes  []*v1.Node
	left   []*resourceapi.ResourceClaim
	claims []*resourceapi.ResourceClaim
	tooOld bool
	// ofDriver is the node where the driver can allocate the first claim, "" if the driver does not allocate it.
	ofDriver string
}

// oneClass has a class for GPUs.
type oneClass struct{}

func (oneClass) GetDeviceClass(name v1.ResourceName) *resourceapi.DeviceClass {
	if name != gpu {
		return nil
	}
	return builder.Class("gpu")
}

// driver allocates the first claim of each pod, on one node; "" if it allocates none.
type driver struct {
	eligibility.Controllers
	onlyOn string
}

func (d driver) Divide(_ *v1.Pod, claims []*resourceapi.ResourceClaim) ([]*resourceapi.ResourceClaim, func(*v1.Node) bool, error) {
	if len(claims) == 0 || d.onlyOn == "" {
		return claims, nil, nil
	}
	return claims[1:], func(node *v1.Node) bool { return node.Name == d.onlyOn }, nil
}

// describer describes pods that ask for GPUs, for which there is a class.
func (c *cluster) describer() *eligibility.Describer {
	stored := cache.NewSharedIndexInformer(nil, &resourceapi.ResourceClaim{}, 0, cache.Indexers{})
	if err := extended.IndexClaims(stored); err != nil {
		panic(err)
	}
	for _, claim := range slices.Concat(c.claims, c.left) {
		if err := stored.GetIndexer().Add(claim); err != nil {
			panic(err)
		}
	}
	d := &eligibility.Describer{
		Needs: &eligibility.Finder{
			Claims:  &podclaims.Claims{Stored: stored.GetIndexer(), Tracked: stub.NoTracker{}, Server: server{recordable: !c.tooOld}},
			Classes: oneClass{}, Stored: stored.GetIndexer(), Controllers: driver{onlyOn: c.ofDriver},
		},
		Rules: rules(),
	}
	for _, node := range c.nodes {
		info := framework.NewNodeInfo()
		info.SetNode(node)
		d.Nodes = append(d.Nodes, fwk.NodeInfo(info))
	}
	return d
}

// offering returns a node where a device plugin offers GPUs.
func offering(name string) *v1.Node {
	node := builder.Node(name)
	node.Status.Allocatable = builder.Resources(gpu, "4", "cpu", "8", "pods", "10")
	return node
}

func asking(gpus string, claims ...string) *v1.Pod {
	pod := builder.Pod("p", builder.Container("main", gpu, gpus))
	for _, claim := range claims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: claim, ResourceClaimName: &claim})
	}
	pod.UID = "uid-p"
	return pod
}

// TestMadeDependsOnNode: devices back GPUs only where no device plugin offers them.
func TestMadeDependsOnNode(t *testing.T) {
	t.Parallel()
	c := &cluster{nodes: []*v1.Node{builder.Node("bare"), offering("offers"), builder.Node("bare2")}}
	d := c.describer()
	m, err := d.Describe(asking("2"))
	require.NoError(t, err)
	require.True(t, m.Made.Varies)
	require.EqualValues(t, 2, m.Made.Most.Spec.Devices.Requests[0].Exactly.Count)
	bare, kind := m.OpenOn(c.nodes[0])
	require.Len(t, bare, 1)
	none, other := m.OpenOn(c.nodes[1])
	require.Empty(t, none)
	require.NotEqual(t, kind, other)
	same, again := m.OpenOn(c.nodes[2])
	require.Equal(t, kind, again)
	require.Same(t, bare[0], same[0], "one claim for the pod, wherever it goes")
	require.True(t, m.UsableOn(c.nodes[0]))
	require.True(t, m.UsableOn(c.nodes[1]))

	more, err := d.Describe(asking("3"))
	require.NoError(t, err)
	require.NotEqual(t, m.Claims, more.Claims, "they are not alike")
	alike := asking("2")
	alike.UID = "uid-q"
	same2, err := d.Describe(alike)
	require.NoError(t, err)
	require.Equal(t, m.Claims, same2.Claims)

	without, err := (&cluster{nodes: c.nodes[:1]}).describer().Describe(asking("2"))
	require.NoError(t, err)
	require.False(t, without.Made.Varies)
	nothing, err := d.Describe(builder.Pod("q", builder.Container("main", "cpu", "1")))
	require.NoError(t, err)
	require.Nil(t, nothing.Made)
	require.Nil(t, nothing.Allocated, "all nodes")
}

// TestLeftOver: a claim of an earlier attempt is used where it is the right one for the pod, and is in the way
// otherwise.
func TestLeftOver(t *testing.T) {
	t.Parallel()
	bare, offers := builder.Node("bare"), offering("offers")
	pod := asking("2")
	made := func(gpus string) *resourceapi.ResourceClaim {
		m, err := (&cluster{nodes: []*v1.Node{bare}}).describer().Describe(asking(gpus))
		require.NoError(t, err)
		return m.Made.Most
	}
	describe := func(left ...*resourceapi.ResourceClaim) (open int, onBare, onOffering bool, err error) {
		m, err := (&cluster{nodes: []*v1.Node{bare, offers}, left: left}).describer().Describe(pod)
		if err != nil {
			return 0, false, false, err
		}
		require.Nil(t, m.Made, "there is one")
		claims, _ := m.OpenOn(bare)
		return len(claims), m.UsableOn(bare), m.UsableOn(offers), nil
	}
	open, onBare, onOffering, err := describe(made("2"))
	require.NoError(t, err)
	require.Equal(t, 1, open)
	require.True(t, onBare)
	require.False(t, onOffering)

	plain, err := (&cluster{nodes: []*v1.Node{bare, offers}}).describer().Describe(pod)
	require.NoError(t, err)
	exists, err := (&cluster{nodes: []*v1.Node{bare, offers}, left: []*resourceapi.ResourceClaim{made("2")}}).describer().Describe(pod)
	require.NoError(t, err)
	require.NotEqual(t, plain.Claims, exists.Claims, "a pod without one may also be where less is needed")

	allocated := made("2")
	allocated.Status.Allocation = builder.Claim("c", builder.Request("r", "gpu")).Allocated("bare", "gpu-0").Status.Allocation
	open, onBare, _, err = describe(allocated)
	require.NoError(t, err)
	require.Zero(t, open)
	require.True(t, onBare)

	_, onBare, onOffering, err = describe(made("1"))
	require.NoError(t, err)
	require.False(t, onBare || onOffering, "for another request")

	m, err := (&cluster{nodes: []*v1.Node{bare}, left: []*resourceapi.ResourceClaim{made("1")}}).describer().Describe(pod)
	require.NoError(t, err, "it is found out that the gang does not fit with it, and then it goes")
	require.False(t, m.UsableOn(bare))

	going := made("2")
	going.DeletionTimestamp = &metav1.Time{}
	_, _, _, err = describe(going)
	require.ErrorContains(t, err, "has to be deleted first")
}

// TestNotDescribed: a pod that fits no node is not planned.
func TestNotDescribed(t *testing.T) {
	t.Parallel()
	old := &cluster{nodes: []*v1.Node{builder.Node("bare")}, tooOld: true}
	_, err := old.describer().Describe(asking("1"))
	require.ErrorContains(t, err, "API server is too old")
	old.nodes = append(old.nodes, offering("offers"))
	m, err := old.describer().Describe(asking("1"))
	require.NoError(t, err)
	require.False(t, m.UsableOn(old.nodes[0]))
	require.True(t, m.UsableOn(old.nodes[1]))

	_, err = old.describer().Describe(asking("1", "none"))
	require.ErrorContains(t, err, "claim default/none (none in the pod) does not exist")
}

// TestClaimsOfDrivers: claims that drivers' controllers allocate need no devices, but nodes that the controllers have
// not refused.
func TestClaimsOfDrivers(t *testing.T) {
	t.Parallel()
	claim := func(name string) *resourceapi.ResourceClaim {
		return builder.Claim(name, builder.Request("r", "gpu")).Obj()
	}
	c := &cluster{nodes: []*v1.Node{builder.Node("n1"), builder.Node("n2")}, claims: []*resourceapi.ResourceClaim{claim("driver"), claim("own")}}
	all, err := c.describer().Describe(asking("0", "driver", "own"))
	require.NoError(t, err)
	require.Len(t, all.Open, 2)
	c.ofDriver = "n2"
	m, err := c.describer().Describe(asking("0", "driver", "own"))
	require.NoError(t, err)
	require.Len(t, m.Open, 1)
	require.Equal(t, "own", m.Open[0].Name)
	require.False(t, m.UsableOn(c.nodes[0]))
	require.True(t, m.UsableOn(c.nodes[1]))
	other := asking("0", "driver", "own")
	other.UID = "uid-q"
	unlike, err := c.describer().Describe(other)
	require.NoError(t, err)
	require.NotEqual(t, m.Claims, unlike.Claims)
}
