package manifests_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/component-helpers/auth/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/quartermaster-dra/quartermaster/manifests"
)

// upstreamRules are the rights that kube-scheduler has in every cluster.
func upstreamRules(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	var rules []rbacv1.PolicyRule
	roles := 0
	for _, role := range bootstrappolicy.ClusterRoles() {
		if role.Name == "system:kube-scheduler" || role.Name == "system:volume-scheduler" {
			roles++
			rules = append(rules, role.Rules...)
		}
	}
	require.Equal(t, 2, roles, "cluster roles of kube-scheduler")
	return rules
}

func TestClusterRoleStaysWithinKubeSchedulers(t *testing.T) {
	t.Parallel()
	// kube-scheduler may delete pods, which asks no disruption budget. For pods whose
	// devices are in conflict there is the gentler way. The rights for groups of pods
	// kube-scheduler has where the gate GenericWorkload is on.
	want := []string{"create pods/eviction", "list podgroups.scheduling.k8s.io", "watch podgroups.scheduling.k8s.io", "patch podgroups/status.scheduling.k8s.io",
		// Whether API servers ask a guard.
		"get validatingwebhookconfigurations.admissionregistration.k8s.io quartermaster-guard"}
	upstream := upstreamRules(t)
	forEachOverlay(t, func(t *testing.T, _ string, objects []*unstructured.Unstructured) {
		role := find[rbacv1.ClusterRole](t, objects, "ClusterRole")
		_, beyond := validation.Covers(upstream, role.Rules)
		require.Equal(t, want, permissions(beyond), "what kube-scheduler may not")
	})
}

// Clusters of alpha versions need more, which is bound to the same identity.
func TestRightsForAlphaVersions(t *testing.T) {
	t.Parallel()
	objects, err := manifests.Render(manifests.AlphaAPI)
	require.NoError(t, err)
	require.Len(t, objects, 2)
	role := find[rbacv1.ClusterRole](t, objects, "ClusterRole")
	for _, rule := range role.Rules {
		require.Equal(t, []string{"resource.k8s.io"}, rule.APIGroups)
	}
	_, beyond := validation.Covers(nil, role.Rules)
	require.ElementsMatch(t, []string{
		"list resourceclasses.resource.k8s.io", "watch resourceclasses.resource.k8s.io",
		"list resourceclassparameters.resource.k8s.io", "watch resourceclassparameters.resource.k8s.io",
		"list resourceclaimparameters.resource.k8s.io", "watch resourceclaimparameters.resource.k8s.io",
		"get podschedulingcontexts.resource.k8s.io", "list podschedulingcontexts.resource.k8s.io", "watch podschedulingcontexts.resource.k8s.io",
		"create podschedulingcontexts.resource.k8s.io", "update podschedulingcontexts.resource.k8s.io", "delete podschedulingcontexts.resource.k8s.io",
	}, permissions(beyond))
	binding := find[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding")
	require.Equal(t, role.Name, binding.RoleRef.Name)
	require.Equal(t, []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: manifests.Name, Namespace: manifests.Namespace}}, binding.Subjects)
}

// What kube-scheduler has and we leave out, each for a reason. When a new
// Kubernetes version grants something more, this asks whether we need it.
func TestRightsLeftOut(t *testing.T) {
	t.Parallel()
	leftOut := []string{
		// Objects are read by list and watch; only claims are read one by one.
		"get pods", "get nodes", "get namespaces", "get services", "get replicationcontrollers",
		"get replicasets.apps", "get statefulsets.apps", "get poddisruptionbudgets.policy",
		"get persistentvolumes", "get persistentvolumeclaims",
		"get csidrivers.storage.k8s.io", "get csinodes.storage.k8s.io", "get csistoragecapacities.storage.k8s.io",
		"get storageclasses.storage.k8s.io", "get volumeattachments.storage.k8s.io",
		"get deviceclasses.resource.k8s.io", "get resourceslices.resource.k8s.io", "get devicetaintrules.resource.k8s.io",
		// In a Role of kube-system instead: only who leads is told in the core group, once
		// in the life of a process.
		"create events", "patch events",
		// Other ways to what is granted: these objects are written by update only or
		// by patch only, and status is read with its object.
		"patch persistentvolumeclaims", "patch persistentvolumes", "update pods/status",
		"patch resourceclaims.resource.k8s.io", "patch resourceclaims/status.resource.k8s.io", "patch resourceclaims/binding.resource.k8s.io",
		"update events", "update events.events.k8s.io",
		"get resourceclaims/status.resource.k8s.io", "list resourceclaims/status.resource.k8s.io", "watch resourceclaims/status.resource.k8s.io",
		// Only for claims that would keep their pod from being deleted (blockOwnerDeletion).
		"update pods/finalizers",
		// Older APIs, which no client here uses.
		"create bindings",
		"get replicasets.extensions", "list replicasets.extensions", "watch replicasets.extensions",
		// In a Role of kube-system instead, for one lease.
		"create leases.coordination.k8s.io",
		"get leases.coordination.k8s.io kube-scheduler", "update leases.coordination.k8s.io kube-scheduler",
		"list leases.coordination.k8s.io kube-scheduler", "watch leases.coordination.k8s.io kube-scheduler",
		// Only with the gate CoordinatedLeaderElection, off by default.
		"create leasecandidates.coordination.k8s.io", "delete leasecandidates.coordination.k8s.io",
		"deletecollection leasecandidates.coordination.k8s.io", "get leasecandidates.coordination.k8s.io",
		"list leasecandidates.coordination.k8s.io", "patch leasecandidates.coordination.k8s.io",
		"update leasecandidates.coordination.k8s.io", "watch leasecandidates.coordination.k8s.io",
	}
	upstream := upstreamRules(t)
	forEachOverlay(t, func(t *testing.T, _ string, objects []*unstructured.Unstructured) {
		role := find[rbacv1.ClusterRole](t, objects, "ClusterRole")
		_, missing := validation.Covers(role.Rules, upstream)
		// The two roles have some in common.
		names := slices.Compact(slices.Sorted(slices.Values(permissions(missing))))
		inAnyOrder := cmpopts.SortSlices(func(a, b string) bool { return a < b })
		require.Empty(t, cmp.Diff(leftOut, names, inAnyOrder))
	})
}

// permissions spells out rules, one permission each: "verb resource[.group] [name]".
func permissions(rules []rbacv1.PolicyRule) []string {
	var result []string
	for _, rule := range rules {
		for _, single := range validation.BreakdownRule(rule) {
			permission := single.Verbs[0] + " " + single.Resources[0]
			if group := single.APIGroups[0]; group != "" {
				permission += "." + group
			}
			if len(single.ResourceNames) > 0 {
				permission += " " + single.ResourceNames[0]
			}
			result = append(result, permission)
		}
	}
	return result
}

// All rights go to one ServiceAccount, and nothing else does.
func TestBindings(t *testing.T) {
	t.Parallel()
	scheduler := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: manifests.Name, Namespace: manifests.Namespace}}
	want := []string{
		"ClusterRole quartermaster",
		"Role extension-apiserver-authentication-reader",
		"Role quartermaster-leader-election",
	}
	forEachOverlay(t, func(t *testing.T, _ string, objects []*unstructured.Unstructured) {
		var bound []string
		for _, object := range objects {
			if kind := object.GetKind(); kind != "RoleBinding" && kind != "ClusterRoleBinding" {
				continue
			}
			binding := find[rbacv1.ClusterRoleBinding](t, []*unstructured.Unstructured{object}, object.GetKind())
			require.Equal(t, scheduler, binding.Subjects, "subjects of %s", object.GetName())
			bound = append(bound, fmt.Sprintf("%s %s", binding.RoleRef.Kind, binding.RoleRef.Name))
		}
		require.ElementsMatch(t, want, bound)
	})
}
