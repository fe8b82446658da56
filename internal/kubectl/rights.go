package kubectl

import (
	"fmt"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// viewerRole is the name of the ClusterRole with all rights that the commands use.
const viewerRole = "kubectl-devices-viewer"

// viewer returns that ClusterRole. manifests/kubectl-devices has the same one.
func viewer() *rbacv1.ClusterRole {
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: viewerRole},
		Rules: []rbacv1.PolicyRule{
			rule(v1.GroupName, []string{"nodes", "pods"}, "list", "watch"),
			rule(resourceapi.GroupName, []string{"resourceslices", "deviceclasses", "devicetaintrules", "resourceclaims", "resourceclaimtemplates"}, "list", "watch"),
			// Only explain reads the following.
			rule(v1.GroupName, []string{"events", "resourcequotas"}, "list"),
			rule("scheduling.k8s.io", []string{"podgroups"}, "get"),
		},
	}
}

func newClusterRole(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "clusterrole",
		Short: "Print a ClusterRole with the rights that these commands use",
		Long: `Print a ClusterRole with all rights that these commands use, in YAML. It lets its users list nodes, pods, and the
objects of resource.k8s.io, in all namespaces. Nothing is created in a cluster.`,
		Example: `  # As an administrator: create it, and bind it to a user
  kubectl devices clusterrole | kubectl apply -f -
  kubectl create clusterrolebinding devices --clusterrole=` + viewerRole + ` --user=jane`,
		Annotations:       offline,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			text, err := yaml.Marshal(viewer())
			if err != nil {
				return fmt.Errorf("print the ClusterRole: %w", err)
			}
			_, err = o.Out.Write(text)
			return err
		},
	}
}
