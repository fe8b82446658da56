package guard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// installPolicy has API servers keep the finalizer of reserved claims until the test ends.
func installPolicy(t *testing.T) {
	t.Helper()
	objects, err := manifests.Render(manifests.Guard)
	require.NoError(t, err)
	policies, ctx := cluster.Client.AdmissionregistrationV1(), t.Context()
	installed := 0
	for _, object := range objects {
		name := object.GetName()
		switch object.GetKind() {
		case "ValidatingAdmissionPolicy":
			policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, policy))
			_, err = policies.ValidatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{})
			t.Cleanup(func() {
				require.NoError(t, policies.ValidatingAdmissionPolicies().Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{}))
			})
		case "ValidatingAdmissionPolicyBinding":
			binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, binding))
			_, err = policies.ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{})
			t.Cleanup(func() {
				require.NoError(t, policies.ValidatingAdmissionPolicyBindings().Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{}))
			})
		default:
			continue
		}
		require.NoError(t, err)
		installed++
	}
	require.Equal(t, 2, installed)
}

// editor is the configuration of somebody with the role edit in the tenant's namespace.
func (s *tenant) editor() *rest.Config {
	s.T.Helper()
	// The roles of which edit consists are bound as well: it is made of them by a controller.
	for _, role := range []string{"edit", "system:aggregate-to-edit", "system:aggregate-to-view"} {
		_, err := cluster.Client.RbacV1().RoleBindings(s.Name).Create(s.T.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "editor"}},
		}, metav1.CreateOptions{})
		require.NoError(s.T, err)
	}
	config := rest.CopyConfig(cluster.ControlPlane.AdminConfig())
	config.Impersonate = rest.ImpersonationConfig{UserName: "editor"}
	return config
}

// takeFinalizers takes all finalizers from a claim.
func (w *writer) takeFinalizers(ctx context.Context, claim string, dryRun bool) error {
	return w.write(ctx, claim, "metadata", map[string]any{"finalizers": nil}, dryRun)
}

// isKept is nil if the finalizer was kept because of a pod.
func isKept(err error, claim, pod string) error {
	want := fmt.Sprintf("claim %s is reserved for pods %s", claim, pod)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "delete the pods that it is reserved for") {
		return fmt.Errorf("it is not said that %s; the answer was: %v", want, err)
	}
	return nil
}

// TestFinalizerOfReservedClaims: somebody with the role edit cannot take the finalizer from a claim that a pod uses, in no
// version and in no way, while those who release claims can, when they have.
func TestFinalizerOfReservedClaims(t *testing.T) {
	s := &tenant{cluster.NewSpace(t, "finalizers", "finalizers", 1)}
	s.Devices(0, harness.Numbered(3)...)
	s.StartScheduler(harness.SchedulerOptions{Profile: "finalizers"})
	installPolicy(t)
	editor := s.editor()
	s.Create(builder.Claim("used", s.Want(1)).Obj(), builder.Claim("one", s.Want(1)).Template())
	s.Create(s.Pod("user", builder.Uses("used")), s.Pod("finishes", builder.FromTemplate("one")))
	s.Running("user", "finishes")
	writers := slices.DeleteFunc(s.writers(editor), func(w *writer) bool { return w.way == types.ApplyPatchType }) // It cannot take what others have.
	s.Eventually("have the finalizer kept", func(ctx context.Context) error {
		return isKept(writers[0].takeFinalizers(ctx, "used", true), s.Name+"/used", "user")
	})
	for _, w := range writers {
		require.NoError(t, isKept(w.takeFinalizers(t.Context(), "used", false), s.Name+"/used", "user"), w)
		require.NoError(t, w.label(t.Context(), "used", "b"), w)
	}
	client, err := kubernetes.NewForConfig(editor)
	require.NoError(t, err)
	claims := client.ResourceV1().ResourceClaims(s.Name)
	require.NoError(t, claims.Delete(t.Context(), "used", metav1.DeleteOptions{}))
	require.NoError(t, isKept(writers[0].takeFinalizers(t.Context(), "used", false), s.Name+"/used", "user"))
	require.NotNil(t, s.stored("used").Status.Allocation)

	// What nobody uses is no concern of the policy.
	s.Create(builder.Claim("unused", s.Want(1)).Modify(func(claim *resourceapi.ResourceClaim) { claim.Finalizers = []string{resourceapi.Finalizer} }).Obj())
	require.NoError(t, writers[0].takeFinalizers(t.Context(), "unused", false))

	// The scheduler and kube-controller-manager release as ever.
	finished := s.Claims("finishes")[0].Name
	harness.UpdateStatus(t, cluster.Client.CoreV1().Pods(s.Name), "finishes", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
	s.ClaimGone(finished)
	s.DeletePod("user")
	s.ClaimGone("used")
}
