package whatif_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

var opaqueData = runtime.RawExtension{Raw: []byte(`{"password": "very secret"}`)}

func unzipped(t *testing.T, data []byte) string {
	t.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	all, err := io.ReadAll(reader)
	require.NoError(t, err)
	return string(all)
}

// A list that expires between two pages is read again as a whole; one that fails there is not taken for all.
func TestPagesExpire(t *testing.T) {
	for name, test := range map[string]struct {
		err     error
		missing int
		nodes   int
	}{
		"expired": {apierrors.NewResourceExpired("too old"), 0, 3},
		"failed":  {apierrors.NewInternalError(fmt.Errorf("oh")), 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			client := served(someCluster())
			calls := 0
			client.PrependReactor("list", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
				calls++
				switch options := action.(clienttesting.ListActionImpl).ListOptions; {
				case options.Continue != "":
					return true, nil, test.err
				case options.Limit == 0:
					return false, nil, nil
				}
				list := &v1.NodeList{Items: []v1.Node{*node("node-0000")}}
				list.Continue = "next"
				return true, list, nil
			})
			o, err := whatif.FromClient(client).Read(t.Context())
			require.NoError(t, err)
			assert.Len(t, o.Missing, test.missing)
			assert.Len(t, o.Nodes, test.nodes)
		})
	}
}

// It is not said that those of a namespace are known if these may not be read either.
func TestNoRightAtAll(t *testing.T) {
	client := served(someCluster())
	client.PrependReactor("list", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "resourceclaims"}, "", nil)
	})
	source := whatif.FromClient(client)
	source.Namespace = "default"
	o, err := source.Read(t.Context())
	require.NoError(t, err)
	require.Len(t, o.Missing, 1)
	assert.NotContains(t, o.Missing[0].Why, "are known")
}

// PossibleVictims are found among thousands that could be.
func TestManyVictims(t *testing.T) {
	const holders = 2000
	o := cluster(1, 0)
	o.Slices[0] = builder.Slice("net").OnAllNodes().Devices(builder.NumberedDevices("gpu", holders)...).Obj()
	o.Slices[0].Spec.Pool.Name = "node-0000"
	for i := range holders {
		holding(&o, fmt.Sprintf("h-%d", i), "node-0000", fmt.Sprintf("gpu-%d", i))
	}
	o.Nodes[0].Status.Allocatable["pods"] = builder.Resources("pods", "9999")["pods"]
	s := whatif.New(o, whatif.Options{})
	victims, found, err := s.PossibleVictims(t.Context(), user("a", "two", func(p *v1.Pod) { p.Spec.Priority = ptr.To(int32(9)) }), "node-0000")
	require.NoError(t, err)
	require.True(t, found)
	assert.Len(t, victims, 2)
}

// The reported number of missing devices is right: with as many more devices the pod fits, and with
// fewer it does not.
func TestNearIsTrue(t *testing.T) {
	o := cluster(1, 4)
	for i := range 3 {
		holding(&o, fmt.Sprintf("h%d", i), "node-0000", fmt.Sprintf("gpu-%d", i))
	}
	two := func(n int64) *resourceapi.ResourceClaimTemplate {
		return builder.Claim(fmt.Sprintf("both-%d", n), builder.Request("a", builder.Driver).Count(n), builder.Request("b", builder.Driver).Count(n)).Template()
	}
	o.Templates = append(o.Templates, two(1), two(2), two(3))
	s := whatif.New(o, whatif.Options{})
	for n, want := range map[int]string{1: "one more free device", 2: "3 more free devices", 3: ""} {
		e, err := s.Explain(t.Context(), user("x", fmt.Sprintf("both-%d", n)))
		require.NoError(t, err)
		if want == "" {
			assert.Empty(t, e.Nearest)
			continue
		}
		require.Len(t, e.Nearest, 1)
		assert.Equal(t, []string{want + " of class gpu.example.com for requests a, b"}, e.Nearest[0].Lacking)
	}

	// No two partitions of a GPU fit together, whichever pods are removed.
	o = cluster(1, 0)
	o.Slices = []*resourceapi.ResourceSlice{
		builder.Slice("counters").InPool("node-0000", 1, 2).OnNode("node-0000").Counters("set", "memory", "20").Obj(),
		builder.Slice("devices").InPool("node-0000", 1, 2).OnNode("node-0000").Devices(
			builder.Device("gpu-0").Consumes("set", "memory", "10"), builder.Device("gpu-1").Consumes("set", "memory", "15")).Obj(),
	}
	holding(&o, "h", "node-0000", "gpu-0")
	e, err := whatif.New(o, whatif.Options{}).Explain(t.Context(), user("x", "two"))
	require.NoError(t, err)
	assert.Empty(t, e.Nearest)
}

// The claim that an attempt has made for a pod's extended resources is used, and not another one made beside it.
func TestExtendedResourceLeftOver(t *testing.T) {
	o := cluster(1, 1)
	o.Classes[0].Spec.ExtendedResourceName = ptr.To("example.com/gpu")
	pod := builder.Pod("a", builder.Container("main", "example.com/gpu", "1"))
	answer := fit(t, whatif.New(o, whatif.Options{}), pod)
	require.Equal(t, whatif.Fits, answer.Verdict)
	made := answer.Plans[0].Claims[0]
	o.Claims = append(o.Claims, made) // The attempt ended after this, so the pod is not on a node.
	s := whatif.New(o, whatif.Options{})
	again := fit(t, s, pod)
	require.Equal(t, whatif.Fits, again.Verdict)
	assert.Empty(t, again.Plans[0].Claims)
	assert.Len(t, again.After.Claims(), 1)
	assert.Equal(t, whatif.DoesNotFit, fit(t, s, user("b", "one")).Verdict)

	open := made.DeepCopy()
	open.Status = resourceapi.ResourceClaimStatus{}
	o.Claims[0] = open
	again = fit(t, whatif.New(o, whatif.Options{}), pod)
	require.Equal(t, whatif.Fits, again.Verdict)
	assert.Len(t, again.Plans[0].Claims, 1)
	without, err := again.After.Without(whatif.Removal{Pods: []string{"default/a"}})
	require.NoError(t, err)
	assert.Equal(t, whatif.Fits, fit(t, without, user("b", "one")).Verdict)
}
