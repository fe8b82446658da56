package controlplane

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
)

// kube-controller-manager refuses to start with a controller that it does not know.
func TestControllersOf(t *testing.T) {
	all := controllerNames(true)
	for release, unknown := range map[string][]string{
		"1.32.2":  {names.DeviceTaintEvictionController, names.PodGroupProtectionController},
		"1.33.13": {names.PodGroupProtectionController},
		"1.37.2":  nil,
	} {
		got, err := controllersOf(release, controllerNames(true))
		require.NoError(t, err)
		require.Len(t, got, len(all)-len(unknown), release)
		require.Contains(t, got, names.ResourceClaimController)
		for _, name := range unknown {
			require.NotContains(t, got, name, release)
		}
	}
	got, err := controllersOf("", controllerNames(true))
	require.NoError(t, err)
	require.Equal(t, all, got)
	_, err = controllersOf("latest", all)
	require.ErrorContains(t, err, "1.32.2", "the error says what a release looks like")
}

func TestAssignments(t *testing.T) {
	require.Equal(t, "", assignments(nil))
	require.Equal(t, "a=true,b=false", assignments(map[string]bool{"b": false, "a": true}))
}
