package harness

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

const (
	// stockIdentity is the service account of the stock scheduler.
	stockIdentity = "stock-scheduler"
	// stockConfig is the configuration of a kube-scheduler with nothing but defaults.
	stockConfig = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
)

// StartStockScheduler runs an unchanged kube-scheduler, of the release of the control plane, for the pods of the default
// scheduler. It has an identity of its own, with the rights that every cluster grants to kube-scheduler. name is the name of its
// log. ctx bounds only the start.
func (c *Cluster) StartStockScheduler(ctx context.Context, name string) (*Scheduler, error) {
	return c.startStock(ctx, scheduler.Options{Config: []byte(stockConfig), LogFile: filepath.Join(c.Logs, name+".log")})
}

// StartStockSchedulerWith is StartStockScheduler with another limit of requests per second,
// twice as many in a burst, and without leader election.
func (c *Cluster) StartStockSchedulerWith(ctx context.Context, name string, qps int) (*Scheduler, error) {
	alone := false
	return c.startStock(ctx, scheduler.Options{
		Config:         fmt.Appendf([]byte(stockConfig), "clientConnection: {qps: %d, burst: %d}\n", qps, 2*qps),
		LeaderElection: &alone,
		LogFile:        filepath.Join(c.Logs, name+".log"),
	})
}

// StartStockSchedulerFor is StartStockSchedulerWith for pods with another schedulerName.
func (c *Cluster) StartStockSchedulerFor(ctx context.Context, name, profile string, qps int) (*Scheduler, error) {
	alone := false
	return c.startStock(ctx, scheduler.Options{
		Config:         fmt.Appendf([]byte(stockConfig), "clientConnection: {qps: %d, burst: %d}\nprofiles: [{schedulerName: %s}]\n", qps, 2*qps, profile),
		LeaderElection: &alone,
		LogFile:        filepath.Join(c.Logs, name+".log"),
	})
}

func (c *Cluster) startStock(ctx context.Context, options scheduler.Options) (_ *Scheduler, err error) {
	if options.Kubeconfig, err = c.StockKubeconfig(ctx); err != nil {
		return nil, fmt.Errorf("make the identity of the stock scheduler: %w", err)
	}
	binary := "kube-scheduler"
	if c.release != "" {
		// That of the same release, which has no gate of the API server that is not its own.
		binary = "compat/kube-scheduler-" + c.release
		options.FeatureGates = c.gates
		options.OnlyHealthz = strings.HasPrefix(c.release, "1.29.") || strings.HasPrefix(c.release, "1.30.")
	}
	process, err := c.StartProcess(ctx, binary, options)
	if err != nil {
		return nil, err
	}
	return &Scheduler{Profile: corev1.DefaultSchedulerName, Process: process, cluster: c}, nil
}

// StockKubeconfig returns the path of a kubeconfig with the identity of the stock scheduler.
// It creates the identity unless it exists.
func (c *Cluster) StockKubeconfig(ctx context.Context) (string, error) {
	_, err := c.Client.CoreV1().ServiceAccounts(manifests.Namespace).Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: stockIdentity}}, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
	case err != nil:
		return "", err
	default:
		if err := c.bindStockRoles(ctx); err != nil {
			return "", err
		}
	}
	return c.ControlPlane.ServiceAccountKubeconfig(ctx, manifests.Namespace, stockIdentity)
}

func (c *Cluster) bindStockRoles(ctx context.Context) error {
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: manifests.Namespace, Name: stockIdentity}}
	for _, role := range []string{"system:kube-scheduler", "system:volume-scheduler"} {
		if _, err := c.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: stockIdentity + ":" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   subjects,
		}, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for _, role := range []string{"system::leader-locking-kube-scheduler", "extension-apiserver-authentication-reader"} {
		if _, err := c.Client.RbacV1().RoleBindings(manifests.Namespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: stockIdentity + ":" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
			Subjects:   subjects,
		}, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}
