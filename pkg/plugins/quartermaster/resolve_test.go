package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha2"
	"github.com/quartermaster-dra/quartermaster/internal/classicdra"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// parameters are classes and parameters of v1alpha2 that come one by one.
type parameters struct {
	*v1alpha2.Parameters
	changed func(func(*resourceapi.ResourceClaim) bool)
}

func (p *parameters) OnChange(changed func(func(*resourceapi.ResourceClaim) bool)) {
	p.changed = changed
}

func (p *parameters) tell(change any) {
	p.changed(func(claim *resourceapi.ResourceClaim) bool { return p.Concerns(change, claim) })
}

// oldObjects is a claim for the parameters "one" and a device on each node, as they look in
// the hub.
func oldObjects(t *testing.T, nodes ...string) []runtime.Object {
	claim, err := v1alpha2.ToHub(&v1alpha2.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default", UID: "c"},
		Spec: v1alpha2.ResourceClaimSpec{ResourceClassName: "gpu",
			ParametersRef: &v1alpha2.ParametersReference{APIGroup: resourceapi.GroupName, Kind: "ResourceClaimParameters", Name: "one"}},
	})
	require.NoError(t, err)
	objects := []runtime.Object{claim, b.Class("gpu")}
	for i, node := range nodes {
		slice, err := v1alpha2.SliceToHub(&v1alpha2.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: node}, NodeName: node, DriverName: b.Driver,
			NamedResources: &v1alpha2.NamedResourcesResources{Instances: []v1alpha2.NamedResourcesInstance{
				{Name: "gpu-0", Attributes: []v1alpha2.NamedResourcesAttribute{{Name: "index", IntValue: ptr.To(int64(i))}}},
			}},
		})
		require.NoError(t, err)
		objects = append(objects, b.Node(node), slice)
	}
	return objects
}

func requestOf(selector string) *v1alpha2.ResourceClaimParameters {
	return &v1alpha2.ResourceClaimParameters{
		ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "default"},
		DriverRequests: []v1alpha2.DriverRequests{{DriverName: b.Driver, Requests: []v1alpha2.ResourceRequest{
			{NamedResources: &v1alpha2.NamedResourcesRequest{Selector: selector}},
		}}},
	}
}

func structuredClass(nodes *v1.NodeSelector) *v1alpha2.ResourceClass {
	return &v1alpha2.ResourceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, DriverName: b.Driver,
		StructuredParameters: ptr.To(true), SuitableNodes: nodes}
}

// TestClaimsOfV1alpha2: pods wait for class and parameters, each with its reason, and are woken when these appear. The
// stored fields are those that the server understands.
func TestClaimsOfV1alpha2(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(oldObjects(t, "n0", "n1"), newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
		known := &parameters{Parameters: v1alpha2.NewParameters()}
		f.support(classicdra.NewResolving(f.olderServers(), known))
		waitsFor := func(reason string) {
			t.Helper()
			_, status := f.begin(f.pod("p"))
			require.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
			require.Equal(t, reason, status.Message())
			f.forget()
		}
		waitsFor("claim default/c: resource class gpu does not exist; waiting for it to be created")
		require.NoError(t, known.Classes.Add(structuredClass(nil)))
		known.tell(structuredClass(nil))
		require.Equal(t, []string{"default/p"}, f.names())
		waitsFor("claim default/c: claim parameters default/one do not exist; waiting for them to be created")
		known.tell(&v1alpha2.ResourceClaimParameters{ObjectMeta: metav1.ObjectMeta{Name: "two", Namespace: "default"}})
		require.Empty(t, f.names(), "these are of no use to the pod")

		require.NoError(t, known.ClaimParameters.Add(requestOf("attributes.int['index'] == 7")))
		known.tell(requestOf(""))
		require.Equal(t, []string{"default/p"}, f.names())
		a := f.mustBegin(f.pod("p")).filter()
		require.Empty(t, a.feasible)
		require.Contains(t, a.reasons["n1"], "claim default/c request "+b.Driver+"-0")

		require.NoError(t, known.ClaimParameters.Add(requestOf("attributes.int['index'] == 1")))
		known.tell(nil)
		a = f.mustBegin(f.pod("p")).filter()
		require.Equal(t, []string{"n1"}, a.feasible)
		require.True(t, a.reserve("n1").IsSuccess())
		require.True(t, a.preBind("n1").IsSuccess())
		stored, err := v1alpha2.FromHub(f.claim("c"))
		require.NoError(t, err)
		require.Equal(t, b.Driver, stored.Status.DriverName)
		require.Equal(t, []v1alpha2.ResourceHandle{{DriverName: b.Driver, StructuredData: &v1alpha2.StructuredResourceHandle{
			NodeName: "n1", Results: []v1alpha2.DriverAllocationResult{{NamedResources: &v1alpha2.NamedResourcesAllocationResult{Name: "gpu-0"}}},
		}}}, stored.Status.Allocation.ResourceHandles)
	})
}

// TestSuitableNodes: the class confines a claim as long as it is not allocated.
func TestSuitableNodes(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(oldObjects(t, "n0", "n1"), newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
		known := &parameters{Parameters: v1alpha2.NewParameters()}
		f.support(classicdra.NewResolving(f.olderServers(), known))
		require.NoError(t, known.ClaimParameters.Add(requestOf("true")))
		require.NoError(t, known.Classes.Add(structuredClass(&v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n0"}}},
		}}})))
		a := f.mustBegin(f.pod("p")).filter()
		require.Equal(t, []string{"n0"}, a.feasible)
		require.Equal(t, "claim default/c: the node is not among the suitableNodes of its class", a.reasons["n1"])
		require.NoError(t, known.Classes.Add(structuredClass(&v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: "k", Operator: "Odd"}},
		}}})))
		_, status := f.begin(f.pod("p"))
		require.Contains(t, status.Message(), "claim default/c: the suitableNodes of its class cannot be parsed")
	})
}
