package beside

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	// streamPods are how many ordinary pods are bound, one after the other, while a tenant does
	// something; fewer if that takes longer than streamTime.
	streamPods = 40
	streamTime = 20 * time.Second
	// share is the part of the others' time that a tenant may take. How many pods lost more than longestSettle, a bound of the
	// metric's buckets, is only logged: it depends on the machine.
	share         = 0.1
	longestSettle = 0.512
)

// TestTenantsDoNotHoldUpOthers: whatever somebody writes who has the role edit in one namespace,
// pods of another one do not settle for that but for a small part of their time. Beside them runs a
// kube-scheduler that does what it is asked for.
func TestTenantsDoNotHoldUpOthers(t *testing.T) {
	harness.Long(t, "tenants and others take turns for a minute")
	b := newBoard(t, "tenants")
	b.startOurs("tenants", asShipped)
	b.startOurs("tenants-other", asShipped)
	b.startStock()
	b.introduce()
	b.stream("warm", b.Name) // kube-scheduler has been allocated something in this namespace.
	calm := b.stream("calm", b.Name)
	t.Logf("nobody else: %s", calm)
	for name, trick := range tricks {
		t.Run(name, func(t *testing.T) {
			tenant := newTenant(t, b, name)
			ctx, stop := context.WithCancel(t.Context())
			var working sync.WaitGroup
			defer func() { stop(); working.Wait() }()
			trick(ctx, tenant)
			for _, again := range tenant.again {
				working.Go(func() { tenant.repeat(ctx, again) })
			}
			got := b.stream(name, b.Name)
			t.Logf("%s: %s; nobody else: %s", name, got, calm)
			assert.LessOrEqual(t, got.settled, share*got.total().Seconds(), "what the tenant took of the others' time: %s", got)
		})
	}
}

// TestTenantsBeforeTheStart: a scheduler that has seen nothing yet finds all of that at once, in two
// namespaces, and believes as little.
func TestTenantsBeforeTheStart(t *testing.T) {
	harness.Long(t, "tenants and others take turns for a while")
	b := newBoard(t, "late")
	b.startStock()
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	defer func() { stop(); working.Wait() }()
	for _, name := range []string{"first", "second"} {
		tenant := newTenant(t, b, name)
		tenant.comeAndGo(ctx, "real", corev1.DefaultSchedulerName, nil)
		for _, trick := range []string{"announces-much", "writes-managed-fields", "has-pods-that-fit-nowhere"} {
			tricks[trick](ctx, tenant)
		}
		for _, again := range tenant.again {
			working.Go(func() { tenant.repeat(ctx, again) })
		}
	}
	b.profiles = nil
	b.startOurs("late", asShipped)
	got := b.stream("late", b.Name)
	t.Log(got)
	assert.LessOrEqual(t, got.settled, share*got.total().Seconds(), "what the tenants took of the others' time: %s", got)
}

// streamed is how a stream of ordinary pods fared.
type streamed struct {
	// took is how long it was from the creation of each pod until it was seen bound.
	took []time.Duration
	// settled is how long they settled together, in seconds, and over how many did so for longer than
	// longestSettle, as the scheduler says.
	settled float64
	over    int
}

func (s streamed) total() (sum time.Duration) {
	for _, d := range s.took {
		sum += d
	}
	return sum
}

func (s streamed) String() string {
	return fmt.Sprintf("%d pods, mean %.3f s, longest %.3f s, settled %.3f s together, %d for longer than %g s",
		len(s.took), s.total().Seconds()/float64(len(s.took)), slices.Max(s.took).Seconds(), s.settled, s.over, longestSettle)
}

// stream binds ordinary pods in a namespace, one after the other, and says how they fared.
func (b *board) stream(name, namespace string) streamed {
	b.T.Helper()
	var s streamed
	before, began := b.readMetrics()[0], time.Now()
	for i := 0; i < streamPods && time.Since(began) < streamTime; i++ {
		pod := b.Pod(fmt.Sprintf("%s-%d", name, i), builder.FromTemplate("one"))
		pod.Spec.SchedulerName = b.profiles[0]
		require.NoError(b.T, b.Cluster.Objects.Create(b.T.Context(), namespace, pod))
		created := time.Now()
		b.Eventually("bind an ordinary pod", func(context.Context) error {
			known, err := b.KnownPod(pod.Name)
			if err == nil && known.Spec.NodeName == "" {
				err = fmt.Errorf("it waits: %s", harness.Reason(known))
			}
			return err
		})
		s.took = append(s.took, time.Since(created))
		b.DeletePod(pod.Name)
	}
	after := b.readMetrics()[0]
	for _, stage := range []string{"pre-write-settle", "post-write-settle"} {
		const metric = "quartermaster_commit_wait_seconds"
		s.settled += after.Sum(metric+"_sum", "stage", stage) - before.Sum(metric+"_sum", "stage", stage)
		waits := after.Histogram(metric, "stage", stage).Since(before.Histogram(metric, "stage", stage))
		s.over += waits.Count() - int(waits[longestSettle])
	}
	return s
}

// tenant is somebody with the role edit in a namespace.
type tenant struct {
	*board
	t         *testing.T
	namespace string
	client    kubernetes.Interface
	// again is what goes on while others' pods are scheduled.
	again []func(ctx context.Context, round int)
}

// newTenant makes a namespace and somebody who may edit it. It is removed at the end.
func newTenant(t *testing.T, b *board, name string) *tenant {
	t.Helper()
	ctx, admin := t.Context(), cluster.Client
	tenant := &tenant{board: b, t: t, namespace: b.Name + "-of-" + name}
	_, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant.namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { tenant.remove(t) })
	_, err = admin.CoreV1().ServiceAccounts(tenant.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	// The roles of which edit consists: nobody aggregates them here.
	for _, role := range []string{"edit", "system:aggregate-to-edit", "system:aggregate-to-view"} {
		_, err = admin.RbacV1().RoleBindings(tenant.namespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: tenant.namespace, Name: "tenant"}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	kubeconfig, err := cluster.ControlPlane.ServiceAccountKubeconfig(ctx, tenant.namespace, "tenant")
	require.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	config.QPS, config.Burst = 500, 500
	tenant.client, err = kubernetes.NewForConfig(config)
	require.NoError(t, err)
	tenant.awaitRights(t)
	return tenant
}

// awaitRights waits until the role counts, and shows what it does not permit.
func (n *tenant) awaitRights(t *testing.T) {
	t.Helper()
	n.Eventually("have the rights of edit", func(ctx context.Context) error {
		_, err := n.client.CoreV1().Pods(n.namespace).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			_, err = n.client.CoreV1().ServiceAccounts(n.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
		}
		if apierrors.IsAlreadyExists(err) {
			err = nil
		}
		return err
	})
	claim := n.create(t.Context(), n.claim("probe", 1), "")
	require.NotNil(t, claim)
	_, err := n.client.ResourceV1().ResourceClaims(n.namespace).UpdateStatus(t.Context(), claim, metav1.UpdateOptions{})
	require.True(t, apierrors.IsForbidden(err), "edit does not permit to allocate: %v", err)
	err = n.client.CoreV1().Pods(n.namespace).Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Target: corev1.ObjectReference{Kind: "Node", Name: n.Node(0)},
	}, metav1.CreateOptions{})
	require.True(t, apierrors.IsForbidden(err), "nor to bind: %v", err)
}

// remove removes all that the tenant has made.
func (n *tenant) remove(t *testing.T) {
	n.clear(t)
	assert.NoError(t, cluster.Client.CoreV1().Namespaces().Delete(context.Background(), n.namespace, metav1.DeleteOptions{}))
}

// clear removes the tenant's pods and claims.
func (n *tenant) clear(t *testing.T) {
	ctx, admin := context.Background(), cluster.Client
	assert.NoError(t, admin.CoreV1().Pods(n.namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}))
	assert.NoError(t, harness.Poll(ctx, harness.Patience, func(ctx context.Context) error {
		claims, err := admin.ResourceV1().ResourceClaims(n.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range claims.Items {
			claim := &claims.Items[i]
			if claim.Status.Allocation == nil && len(claim.Finalizers) > 0 {
				claim.Finalizers = nil
				_, _ = admin.ResourceV1().ResourceClaims(n.namespace).Update(ctx, claim, metav1.UpdateOptions{})
			}
			_ = admin.ResourceV1().ResourceClaims(n.namespace).Delete(ctx, claim.Name, metav1.DeleteOptions{})
		}
		if len(claims.Items) > 0 {
			return fmt.Errorf("%d claims are left", len(claims.Items))
		}
		return nil
	}))
}

// repeat does something again and again.
func (n *tenant) repeat(ctx context.Context, do func(ctx context.Context, round int)) {
	for round := 0; ctx.Err() == nil; round++ {
		do(ctx, round)
	}
}
