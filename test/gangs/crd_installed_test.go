package gangs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// known is what a listener was told of, by name.
type known struct {
	mutex  sync.Mutex
	groups map[string]types.UID
}

func listen(groups *crd.Groups) *known {
	k := &known{groups: make(map[string]types.UID)}
	groups.OnChange(func(before, after *v1alpha1.PodGroup) {
		k.mutex.Lock()
		defer k.mutex.Unlock()
		if after == nil {
			delete(k.groups, before.Name)
		} else {
			k.groups[after.Name] = after.UID
		}
	})
	return k
}

// await waits until the listener knows a PodGroup by that UID; "" for none.
func (k *known) await(t *testing.T, name string, want types.UID) {
	t.Helper()
	eventually(t, func(context.Context) error {
		k.mutex.Lock()
		defer k.mutex.Unlock()
		if k.groups[name] != want {
			return fmt.Errorf("the listener knows PodGroups %v, and not %s with UID %q", k.groups, name, want)
		}
		return nil
	})
}

func awaitNotInstalled(t *testing.T, groups *crd.Groups) {
	t.Helper()
	eventually(t, func(context.Context) error {
		if _, err := groups.Get(namespace, "train"); !errors.Is(err, crd.ErrNotInstalled) || !groups.HasSynced() || groups.Installed() {
			return fmt.Errorf("want it to be known that PodGroups are not installed, got %v", err)
		}
		return nil
	})
}

// The definition comes while the scheduler runs, goes, and comes again.
func TestDefinitionComesAndGoes(t *testing.T) {
	harness.Long(t, "the scheduler looks for the definition at intervals")
	groups := follow(t)
	heard := listen(groups)
	awaitNotInstalled(t, groups)

	install(t)
	train := object("train", 2)
	train.SetAnnotations(map[string]string{"example.com/team": "ml"})
	spec := train.Object["spec"].(map[string]any)
	spec["minResources"], spec["scheduleTimeoutSeconds"] = map[string]any{"cpu": "500m", "example.com/gpu": int64(4)}, int64(30)
	first := create(t, train)
	heard.await(t, "train", first.UID)
	require.True(t, groups.Installed())
	require.True(t, groups.HasSynced())
	got, err := groups.Get(namespace, "train")
	require.NoError(t, err)
	require.Equal(t, first.UID, got.UID)
	require.EqualValues(t, 2, got.Spec.MinMember)
	require.EqualValues(t, 30, *got.Spec.ScheduleTimeoutSeconds)
	require.Equal(t, "ml", got.Annotations["example.com/team"])
	require.Len(t, got.Spec.MinResources, 2)
	require.Equal(t, "500m", got.Spec.MinResources.Cpu().String())
	require.Equal(t, resource.MustParse("4"), got.Spec.MinResources["example.com/gpu"])
	_, err = groups.Get(namespace, "other")
	require.ErrorContains(t, err, "there is none of that name")

	uninstall(t)
	heard.await(t, "train", "")
	awaitNotInstalled(t, groups)

	install(t)
	second := create(t, object("train", 1))
	require.NotEqual(t, first.UID, second.UID)
	heard.await(t, "train", second.UID)
	_, untyped := admin(t)
	require.NoError(t, untyped.Resource(podGroups).Namespace(namespace).Delete(t.Context(), "train", metav1.DeleteOptions{}))
	heard.await(t, "train", "")
	require.True(t, groups.Installed())
}

// What users see of the resource, and what the server refuses.
func TestDefinition(t *testing.T) {
	install(t)
	create(t, object("valid", 1))
	client, untyped := admin(t)

	served, err := client.Discovery().ServerResourcesForGroupVersion(v1alpha1.SchemeGroupVersion.String())
	require.NoError(t, err)
	names := make(map[string][]string)
	for _, r := range served.APIResources {
		names[r.Name] = r.ShortNames
	}
	require.Equal(t, map[string][]string{"podgroups": {"pg", "pgs"}, "podgroups/status": nil}, names)

	for name, field := range map[string]struct {
		name  string
		value any
	}{
		"too few":         {"minMember", int64(0)},
		"no number":       {"minMember", "two"},
		"no quantity":     {"minResources", map[string]any{"cpu": "a lot"}},
		"not even a text": {"minResources", map[string]any{"cpu": true}},
	} {
		group := object("invalid", 1)
		group.Object["spec"].(map[string]any)[field.name] = field.value
		_, err := untyped.Resource(podGroups).Namespace(namespace).Create(t.Context(), group, metav1.CreateOptions{})
		require.True(t, apierrors.IsInvalid(err), "%s: %v", name, err)
		require.ErrorContains(t, err, "spec."+field.name, name)
	}
}
