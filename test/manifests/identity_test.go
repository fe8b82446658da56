package manifests

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/quartermaster-dra/quartermaster/manifests"
)

// access is one question to the authoriser, and the answer for each overlay.
// Those that both overlays allow come first: once they are, all roles are known,
// and a "no" is final.
type access struct {
	verb, group, resource, subresource string
	namespace, name                    string
	secondary, replaceDefault          bool
}

// allowed is the answer for one overlay.
func (a access) allowed(overlay string) bool {
	if overlay == manifests.ReplaceDefault {
		return a.replaceDefault
	}
	return a.secondary
}

var accessCases = []access{
	{verb: "create", resource: "pods", subresource: "binding", namespace: "default", secondary: true, replaceDefault: true},
	{verb: "update", group: "resource.k8s.io", resource: "resourceclaims", namespace: "default", secondary: true, replaceDefault: true},
	{verb: "update", group: "resource.k8s.io", resource: "resourceclaims", subresource: "status", namespace: "default", secondary: true, replaceDefault: true},
	// The scheduler makes the claims for extended resources.
	{verb: "create", group: "resource.k8s.io", resource: "resourceclaims", namespace: "default", secondary: true, replaceDefault: true},
	{verb: "delete", group: "resource.k8s.io", resource: "resourceclaims", namespace: "default", secondary: true, replaceDefault: true},
	// The API server asks for this one without a namespace.
	{verb: "update", group: "resource.k8s.io", resource: "resourceclaims", subresource: "binding", secondary: true, replaceDefault: true},
	{verb: "get", resource: "configmaps", namespace: "kube-system", name: "extension-apiserver-authentication", secondary: true, replaceDefault: true},
	{verb: "create", group: "coordination.k8s.io", resource: "leases", namespace: "kube-system", secondary: true, replaceDefault: true},
	// Each may hold its own lease only.
	{verb: "update", group: "coordination.k8s.io", resource: "leases", namespace: "kube-system", name: "quartermaster", secondary: true},
	{verb: "update", group: "coordination.k8s.io", resource: "leases", namespace: "kube-system", name: "kube-scheduler", replaceDefault: true},
	{verb: "create", group: "coordination.k8s.io", resource: "leases", namespace: "default"},
	// What a scheduler has no business with.
	{verb: "get", resource: "secrets", namespace: "kube-system"},
	{verb: "get", resource: "configmaps", namespace: "kube-system", name: "other"},
	{verb: "create", resource: "pods", namespace: "default"},
	{verb: "update", resource: "nodes"},
	{verb: "update", group: "resource.k8s.io", resource: "resourceslices"},
	{verb: "deletecollection", group: "resource.k8s.io", resource: "resourceclaims", namespace: "default"},
	{verb: "delete", group: "resource.k8s.io", resource: "resourceslices"},
	{verb: "update", group: "resource.k8s.io", resource: "resourceclaims", subresource: "driver"},
}

func TestIdentity(t *testing.T) {
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	require.NoError(t, err)
	for _, overlay := range manifests.Overlays() {
		t.Run(overlay, func(t *testing.T) {
			require.NoError(t, manifests.Apply(t.Context(), cluster.AdminConfig(), overlay, manifests.ApplyOptions{RBACOnly: true}))
			defer uninstall(t, overlay)
			for _, question := range accessCases {
				awaitAccess(t, client, question, question.allowed(overlay))
			}
		})
	}
}

// awaitAccess waits until the authoriser gives the answer: it learns of new
// roles and of removed ones with a delay.
func awaitAccess(t *testing.T, client kubernetes.Interface, question access, want bool) {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + manifests.Namespace + ":" + manifests.Name,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: question.verb, Group: question.group, Version: "*",
			Resource: question.resource, Subresource: question.subresource,
			Namespace: question.namespace, Name: question.name,
		},
	}}
	var last *authorizationv1.SubjectAccessReview
	err := wait.PollUntilContextTimeout(t.Context(), pollInterval, pollTimeout, true, func(ctx context.Context) (bool, error) {
		answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		last = answer
		return err == nil && answer.Status.Allowed == want, err
	})
	require.NoError(t, err, "want allowed=%t for %+v, got %+v", want, question, last)
}
