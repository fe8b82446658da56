package whatif_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// served is a server with a cluster.
func served(o whatif.Objects) *fake.Clientset {
	var all []runtime.Object
	for _, object := range o.Nodes {
		all = append(all, object)
	}
	for _, object := range o.Slices {
		all = append(all, object)
	}
	for _, object := range o.Claims {
		all = append(all, object)
	}
	for _, object := range o.Templates {
		all = append(all, object)
	}
	for _, object := range o.Classes {
		all = append(all, object)
	}
	for _, object := range o.Pods {
		all = append(all, object)
	}
	return fake.NewClientset(all...)
}

func someCluster() whatif.Objects {
	o := cluster(3, 2)
	holding(&o, "holder", "node-0000", "gpu-0")
	return o
}

// sameWorld checks that a snapshot has the cluster of someCluster.
func sameWorld(t *testing.T, o whatif.Objects) {
	t.Helper()
	answer := fit(t, whatif.New(o, whatif.Options{}), user("a", "two"), user("b", "two"), user("c", "one"), user("d", "one"))
	assert.Equal(t, whatif.DoesNotFit, answer.Verdict)
	assert.Equal(t, []string{"node-0001", "node-0002", "node-0000"}, nodesOf(answer))
}

func TestFromClient(t *testing.T) {
	read := make(map[string]int)
	source := whatif.FromClient(served(someCluster()))
	source.Progress = func(resource string, count int) { read[resource] = count }
	o, err := source.Read(t.Context())
	require.NoError(t, err)
	assert.Empty(t, o.Missing)
	assert.Equal(t, 3, read["resourceslices.resource.k8s.io"])
	sameWorld(t, o)
}

func TestFromListers(t *testing.T) {
	factory := informers.NewSharedInformerFactory(served(someCluster()), 0)
	_, err := whatif.FromListers(factory, true) // Has the informers started that are asked.
	require.NoError(t, err)
	factory.StartWithContext(t.Context())
	factory.WaitForCacheSync(t.Context().Done())
	o, err := whatif.FromListers(factory, true)
	require.NoError(t, err)
	sameWorld(t, o)
}

func TestDump(t *testing.T) {
	o := someCluster()
	o.Pods[0].Spec.Containers = []v1.Container{{Name: "main", Image: "img", Env: []v1.EnvVar{{Name: "PASSWORD", Value: "secret"}}}}
	var file bytes.Buffer
	require.NoError(t, whatif.WriteDump(&file, o))
	read, err := whatif.ReadDump(&file)
	require.NoError(t, err)
	sameWorld(t, read)
	assert.Empty(t, read.Pods[0].Spec.Containers[0].Env)
	assert.NotEmpty(t, o.Pods[0].Spec.Containers[0].Env, "the original is as it was")

	for text, want := range map[string]string{
		"kind: Pod":                        `it has kind "Pod"`,
		"\x1f\x8bno":                       "unpack it",
		"{":                                "cannot be understood as JSON or YAML",
		"kind: DevicesDump\napiVersion: x": `of "x"`,
	} {
		_, err := whatif.ReadDump(bytes.NewBufferString(text))
		require.ErrorContains(t, err, want)
	}
}

// Without a right, what may be seen is read, and what not is said.
func TestRights(t *testing.T) {
	client := served(someCluster())
	forbid := func(resource string, everywhere bool) {
		client.PrependReactor("list", resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
			if !everywhere && action.GetNamespace() != "" {
				return false, nil, nil
			}
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil)
		})
	}
	forbid("resourceclaims", false)
	forbid("devicetaintrules", true)
	source := whatif.FromClient(client)
	source.Namespace = "default"
	o, err := source.Read(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []whatif.Missing{
		{Resource: "devicetaintrules.resource.k8s.io", Why: "the right to list devicetaintrules.resource.k8s.io in all namespaces is missing", Forbidden: true},
		{Resource: "resourceclaims.resource.k8s.io", Why: "the right to list resourceclaims.resource.k8s.io in all namespaces is missing; only those of namespace default are known", Forbidden: true, Namespace: "default"},
	}, o.Missing)
	assert.Len(t, o.Claims, 1)
	assert.Equal(t, whatif.CannotTell, fit(t, whatif.New(o, whatif.Options{}), user("a", "one")).Verdict)
}
