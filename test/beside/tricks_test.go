package beside

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

const (
	// stockManager is the field manager of kube-scheduler.
	stockManager = "kube-scheduler"
	// invented is the name of a scheduler that does not exist.
	invented = "nobody"
)

// tricks are what a tenant may do to have others believe that a scheduler is about to allocate.
var tricks = map[string]func(context.Context, *tenant){
	"announces": func(ctx context.Context, n *tenant) { n.announce(ctx, "announced", stockManager) },
	"announces-much": func(ctx context.Context, n *tenant) {
		for i := range 105 {
			n.announce(ctx, fmt.Sprint("announced-", i), stockManager)
		}
	},
	"announces-again-and-again": func(_ context.Context, n *tenant) {
		n.again = append(n.again, func(ctx context.Context, round int) {
			n.announce(ctx, fmt.Sprint("announced-", round), stockManager)
			rest(ctx, 200*time.Millisecond)
		})
	},
	"announces-in-our-name": func(ctx context.Context, n *tenant) { n.announce(ctx, "announced", write.FieldManager) },
	"announces-by-apply":    func(ctx context.Context, n *tenant) { n.announceByApply(ctx) },
	"writes-managed-fields": func(ctx context.Context, n *tenant) {
		for i := range 5 {
			claim := n.claim(fmt.Sprint("forged-", i), int64(i+1))
			claim.Finalizers = []string{resourceapi.Finalizer}
			claim.ManagedFields = forged(stockManager, time.Now())
			n.create(ctx, claim, "anything")
		}
	},
	"protects-a-claim-made-from-a-template": func(ctx context.Context, n *tenant) {
		n.template(ctx, "one")
		pod := n.pod("theirs", invented, builder.FromTemplate("one"))
		n.createPod(ctx, pod)
		n.again = append(n.again, func(ctx context.Context, round int) {
			claims, err := n.client.ResourceV1().ResourceClaims(n.namespace).List(ctx, metav1.ListOptions{})
			if err == nil {
				for i := range claims.Items {
					claims.Items[i].Finalizers = nil
					if round%2 == 0 {
						claims.Items[i].Finalizers = []string{resourceapi.Finalizer}
					}
					_, _ = n.client.ResourceV1().ResourceClaims(n.namespace).Update(ctx, &claims.Items[i], metav1.UpdateOptions{FieldManager: stockManager})
				}
			}
			rest(ctx, 100*time.Millisecond)
		})
	},
	"invents-a-scheduler": func(ctx context.Context, n *tenant) {
		n.create(ctx, n.claim("wanted", 1), "")
		n.createPod(ctx, n.pod("theirs", invented, builder.Uses("wanted")))
	},
	"invents-a-scheduler-that-runs": func(ctx context.Context, n *tenant) {
		for i := range 20 {
			name := fmt.Sprint("wanted-", i)
			n.create(ctx, n.claim(name, 1), "")
			n.createPod(ctx, n.pod("theirs-"+name, invented, builder.Uses(name)))
		}
		n.placed(ctx, "placed", invented)
		n.again = append(n.again, func(ctx context.Context, round int) {
			n.label(ctx, "placed", round)
			rest(ctx, 100*time.Millisecond)
		})
	},
	"invents-a-scheduler-again-and-again": func(_ context.Context, n *tenant) {
		n.again = append(n.again, func(ctx context.Context, round int) {
			name := fmt.Sprint("wanted-", round)
			n.create(ctx, n.claim(name, 1), "")
			n.createPod(ctx, n.pod("theirs-"+name, fmt.Sprint(invented, "-", round), builder.Uses(name)))
			rest(ctx, 200*time.Millisecond)
		})
	},
	"has-pods-that-fit-nowhere": func(ctx context.Context, n *tenant) {
		for i := range 30 {
			name := fmt.Sprint("unfit-", i)
			n.create(ctx, n.claim(name, 1), "")
			pod := n.pod("theirs-"+name, corev1.DefaultSchedulerName, builder.Uses(name))
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1e6")}
			n.createPod(ctx, pod)
		}
	},
	"has-pods-scheduled": func(_ context.Context, n *tenant) {
		n.again = append(n.again, func(ctx context.Context, round int) {
			n.comeAndGo(ctx, fmt.Sprint("real-", round), corev1.DefaultSchedulerName, nil)
		})
	},
	"has-many-pods-scheduled": func(_ context.Context, n *tenant) {
		for lane := range 6 {
			n.again = append(n.again, func(ctx context.Context, round int) {
				n.comeAndGo(ctx, fmt.Sprintf("real-%d-%d", lane, round), corev1.DefaultSchedulerName, nil)
			})
		}
	},
	"has-pods-scheduled-after-announcing": func(_ context.Context, n *tenant) {
		n.again = append(n.again, func(ctx context.Context, round int) {
			name := fmt.Sprint("real-", round)
			n.announce(ctx, name, stockManager)
			rest(ctx, 2*time.Second)
			n.comeAndGo(ctx, name, corev1.DefaultSchedulerName, nil)
		})
	},
	"hides-that-ours-allocates": func(_ context.Context, n *tenant) {
		n.again = append(n.again, func(ctx context.Context, round int) {
			n.comeAndGo(ctx, fmt.Sprint("hidden-", round), n.profiles[1], func(claim *resourceapi.ResourceClaim) {
				claim.ManagedFields = []metav1.ManagedFieldsEntry{{}} // The server records nothing from now on.
			})
		})
	},
	"has-others-take-the-blame": func(_ context.Context, n *tenant) {
		n.again = append(n.again, func(ctx context.Context, round int) {
			n.comeAndGo(ctx, fmt.Sprint("blamed-", round), n.profiles[1], func(claim *resourceapi.ResourceClaim) {
				claim.ManagedFields = forged(stockManager, time.Now().Add(100*24*time.Hour))
			})
		})
	},
}

// forged are managed fields by which somebody has allocated a claim and protected it.
func forged(manager string, at time.Time) []metav1.ManagedFieldsEntry {
	entry := metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "resource.k8s.io/v1", FieldsType: "FieldsV1", Time: &metav1.Time{Time: at},
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:finalizers":{".":{},"v:\"` + resourceapi.Finalizer + `\"":{}}}}`),
	}
	status := entry
	status.Subresource = "status"
	status.FieldsV1 = metav1.NewFieldsV1(`{"f:status":{"f:allocation":{".":{},"f:devices":{".":{},"f:results":{}}}}}`)
	return []metav1.ManagedFieldsEntry{entry, status}
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// claim is one for devices such as those that others use.
func (n *tenant) claim(name string, count int64) *resourceapi.ResourceClaim {
	return builder.Claim(name, n.Want(count)).In(n.namespace).Obj()
}

// create creates a claim as a field manager. It returns nil if the attack is over.
func (n *tenant) create(ctx context.Context, claim *resourceapi.ResourceClaim, manager string) *resourceapi.ResourceClaim {
	claim.UID, claim.ResourceVersion = "", ""
	created, err := n.client.ResourceV1().ResourceClaims(n.namespace).Create(ctx, claim, metav1.CreateOptions{FieldManager: manager})
	if ctx.Err() != nil {
		return nil
	}
	assert.NoError(n.t, err)
	return created
}

// announce makes a claim that looks as if a scheduler was about to allocate it.
func (n *tenant) announce(ctx context.Context, name, manager string) {
	claim := n.claim(name, 1)
	claim.Finalizers = []string{resourceapi.Finalizer}
	n.create(ctx, claim, manager)
}

// announceByApply does so by taking the finalizer from whoever had it.
func (n *tenant) announceByApply(ctx context.Context) {
	n.announce(ctx, "announced", "kubectl-create")
	patch, err := json.Marshal(map[string]any{
		"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
		"metadata": map[string]any{"name": "announced", "finalizers": []string{resourceapi.Finalizer}},
	})
	require.NoError(n.t, err)
	_, err = n.client.ResourceV1().ResourceClaims(n.namespace).Patch(ctx, "announced", types.ApplyPatchType, patch,
		metav1.PatchOptions{FieldManager: stockManager, Force: new(true)})
	require.NoError(n.t, err)
}

func (n *tenant) template(ctx context.Context, name string) {
	template := builder.Claim(name, n.Want(1)).In(n.namespace).Template()
	template.UID, template.ResourceVersion = "", ""
	_, err := n.client.ResourceV1().ResourceClaimTemplates(n.namespace).Create(ctx, template, metav1.CreateOptions{})
	require.NoError(n.t, err)
}

// pod is one on the nodes where others' devices are.
func (n *tenant) pod(name, scheduler string, claims []corev1.PodResourceClaim) *corev1.Pod {
	pod := n.Pod(name, claims)
	pod.Namespace, pod.UID, pod.ResourceVersion, pod.Spec.SchedulerName = n.namespace, "", "", scheduler
	return pod
}

func (n *tenant) createPod(ctx context.Context, pod *corev1.Pod) {
	_, err := n.client.CoreV1().Pods(n.namespace).Create(ctx, pod, metav1.CreateOptions{})
	if ctx.Err() == nil {
		assert.NoError(n.t, err)
	}
}

// placed is a pod that no scheduler has bound.
func (n *tenant) placed(ctx context.Context, name, scheduler string) {
	n.create(ctx, n.claim(name, 1), "")
	pod := n.pod(name, scheduler, builder.Uses(name))
	pod.Spec.NodeName = n.Node(0)
	n.createPod(ctx, pod)
}

func (n *tenant) label(ctx context.Context, pod string, round int) {
	_, _ = n.client.CoreV1().Pods(n.namespace).Patch(ctx, pod, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{"round":"%d"}}}`, round), metav1.PatchOptions{})
}

// comeAndGo has a scheduler bind a pod with a claim, which may be edited before that, and deletes
// both.
func (n *tenant) comeAndGo(ctx context.Context, name, scheduler string, edit func(*resourceapi.ResourceClaim)) {
	claims := n.client.ResourceV1().ResourceClaims(n.namespace)
	if _, err := claims.Get(ctx, name, metav1.GetOptions{}); err != nil {
		n.create(ctx, n.claim(name, 1), "")
	}
	if edit != nil {
		_ = retry.RetryOnConflict(retry.DefaultRetry, func() error {
			claim, err := claims.Get(ctx, name, metav1.GetOptions{})
			if err == nil {
				edit(claim)
				_, err = claims.Update(ctx, claim, metav1.UpdateOptions{FieldManager: "anything"})
			}
			return err
		})
	}
	n.createPod(ctx, n.pod(name, scheduler, builder.Uses(name)))
	for ctx.Err() == nil {
		if pod, err := n.client.CoreV1().Pods(n.namespace).Get(ctx, name, metav1.GetOptions{}); err == nil && pod.Spec.NodeName != "" {
			break
		}
		rest(ctx, 20*time.Millisecond)
	}
	_ = n.client.CoreV1().Pods(n.namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	_ = claims.Delete(ctx, name, metav1.DeleteOptions{})
}
