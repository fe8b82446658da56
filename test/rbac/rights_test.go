package rbac

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/quartermaster-dra/quartermaster/manifests"
)

// readAuthentication stands for the RoleBinding to Kubernetes' own role that lets
// the scheduler read one ConfigMap. It is taken away as a whole.
const readAuthentication = "list configmaps"

// The objects that give rights, by the names that the manifests give them.
const (
	clusterRole           = "quartermaster"
	leaseRole             = "quartermaster-leader-election"
	authenticationBinding = "quartermaster-authentication-reader"
)

// right is one verb on one resource, as one role grants it.
type right struct {
	role string
	rule rbacv1.PolicyRule // one verb, one group, one resource, at most one name
}

// String is unique within what is granted: "update leases.coordination.k8s.io".
func (r right) String() string {
	return r.rule.Verbs[0] + " " + groupResource(r.rule.APIGroups[0], r.rule.Resources[0])
}

// rights are those that the manifests grant, and what takes them away.
type rights struct {
	e   *environment
	all []right
}

func readRights(ctx context.Context, e *environment) (*rights, error) {
	result := &rights{e: e}
	cluster, err := e.client.RbacV1().ClusterRoles().Get(ctx, clusterRole, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	role, err := e.client.RbacV1().Roles(manifests.Namespace).Get(ctx, leaseRole, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for name, rules := range map[string][]rbacv1.PolicyRule{clusterRole: cluster.Rules, leaseRole: role.Rules} {
		for _, rule := range rules {
			for _, single := range validation.BreakdownRule(rule) {
				result.all = append(result.all, right{role: name, rule: single})
			}
		}
	}
	result.all = append(result.all, right{role: authenticationBinding, rule: rbacv1.PolicyRule{
		Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"extension-apiserver-authentication"},
	}})
	slices.SortFunc(result.all, func(a, b right) int { return strings.Compare(a.String(), b.String()) })
	return result, nil
}

// names are all rights by name.
func (r *rights) names() []string {
	var names []string
	for _, one := range r.all {
		names = append(names, one.String())
	}
	return names
}

// grantAllBut takes the named rights away and releases all others, and waits
// until the authoriser knows.
func (r *rights) grantAllBut(ctx context.Context, missing ...string) error {
	rules := map[string][]rbacv1.PolicyRule{}
	for _, one := range r.all {
		if !slices.Contains(missing, one.String()) {
			rules[one.role] = append(rules[one.role], one.rule)
		}
	}
	if err := r.write(ctx, rules); err != nil {
		return err
	}
	return eventually(ctx, func(ctx context.Context) error {
		for _, one := range r.all {
			if err := r.requireAccess(ctx, one, !slices.Contains(missing, one.String())); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *rights) write(ctx context.Context, rules map[string][]rbacv1.PolicyRule) error {
	client := r.e.client.RbacV1()
	cluster, err := client.ClusterRoles().Get(ctx, clusterRole, metav1.GetOptions{})
	if err != nil {
		return err
	}
	cluster.Rules = rules[clusterRole]
	if _, err := client.ClusterRoles().Update(ctx, cluster, metav1.UpdateOptions{}); err != nil {
		return err
	}
	role, err := client.Roles(manifests.Namespace).Get(ctx, leaseRole, metav1.GetOptions{})
	if err != nil {
		return err
	}
	role.Rules = rules[leaseRole]
	if _, err := client.Roles(manifests.Namespace).Update(ctx, role, metav1.UpdateOptions{}); err != nil {
		return err
	}
	binding, err := client.RoleBindings(manifests.Namespace).Get(ctx, authenticationBinding, metav1.GetOptions{})
	if err != nil {
		return err
	}
	binding.Subjects = nil
	if len(rules[authenticationBinding]) > 0 {
		binding.Subjects = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: manifests.Namespace, Name: manifests.Name}}
	}
	_, err = client.RoleBindings(manifests.Namespace).Update(ctx, binding, metav1.UpdateOptions{})
	return err
}

// requireAccess asks the authoriser whether the scheduler has a right.
func (r *rights) requireAccess(ctx context.Context, one right, want bool) error {
	resource, subresource, _ := strings.Cut(one.rule.Resources[0], "/")
	attributes := &authorizationv1.ResourceAttributes{
		Verb: one.rule.Verbs[0], Group: one.rule.APIGroups[0], Version: "*", Resource: resource, Subresource: subresource,
	}
	if one.role != clusterRole {
		attributes.Namespace = manifests.Namespace
	}
	if len(one.rule.ResourceNames) > 0 {
		attributes.Name = one.rule.ResourceNames[0]
	}
	answer, err := r.e.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + manifests.Namespace + ":" + manifests.Name, ResourceAttributes: attributes,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if answer.Status.Allowed != want {
		return fmt.Errorf("the right to %s is granted: %t, want %t", one, answer.Status.Allowed, want)
	}
	return nil
}
