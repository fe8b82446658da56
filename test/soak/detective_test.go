package soak

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/test/checker"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// ourManager is the name under which schedulers of ours write.
const ourManager = "quartermaster"

// detective looks for devices that two claims hold although the pods of both are bound.
// That two claims hold the same for a moment is in order: one of them yields.
type detective struct {
	space   *harness.Space
	reports *reports
	done    chan struct{}
	looked  int
	// found are the pairs of claims, by who allocated the two.
	found map[string]map[pairKey]string
	err   error
}

// pairKey are the UIDs of two claims.
type pairKey [2]types.UID

const (
	bothOurs  = "both by ours"
	mixed     = "by ours and stock"
	bothStock = "both by stock"
	// madeBlindly are the pairs of the blind user, made to be found.
	madeBlindly = "made blindly"
)

func newDetective(s *harness.Space, r *reports) *detective {
	return &detective{space: s, reports: r, done: make(chan struct{}), found: map[string]map[pairKey]string{
		bothOurs: {}, mixed: {}, bothStock: {}, madeBlindly: {},
	}}
}

func (d *detective) String() string {
	var found []string
	for _, kind := range []string{bothOurs, mixed, bothStock, madeBlindly} {
		found = append(found, fmt.Sprintf("%d %s", len(d.found[kind]), kind))
	}
	return fmt.Sprintf("looked %d times; pairs of claims with bound pods that held the same device: %s; %s",
		d.looked, strings.Join(found, ", "), d.reports)
}

// judge fails the test if anything was found that must not happen at all. The stock
// scheduler may miss what ours has, and, after ours has released what both had, take
// for free what a claim of its own still holds.
func (d *detective) judge(t *testing.T) {
	t.Helper()
	require.NoError(t, d.err)
	for _, kind := range []string{mixed, bothStock} {
		for _, pair := range d.found[kind] {
			t.Logf("allocated %s: %s", kind, pair)
		}
	}
	require.Empty(t, d.found[bothOurs], "claims that schedulers of ours have allocated hold the same device")
	require.Greater(t, d.looked, 10)
}

// run looks again and again until the context is done.
func (d *detective) run(ctx context.Context) {
	defer close(d.done)
	for ctx.Err() == nil {
		if err := d.look(d.space.T.Context()); err != nil {
			d.err = err
			return
		}
		d.looked++
		pause(ctx, 500*time.Millisecond)
	}
}

// look reads claims, pods and claims again. What two claims hold both times they held
// when the pods were read.
func (d *detective) look(ctx context.Context) error {
	before, err := d.shared(ctx)
	if err != nil {
		return err
	}
	pods, err := cluster.Client.CoreV1().Pods(d.space.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	bound := make(schedulersOf)
	for _, pod := range pods.Items {
		if isOnNode(&pod) {
			bound[pod.UID] = pod.Spec.SchedulerName
		}
	}
	after, err := d.shared(ctx)
	if err != nil {
		return err
	}
	for key, pair := range before {
		if _, still := after[key]; still && pair.inUse(bound) {
			d.found[pair.kind(bound)][key] = pair.String()
			d.reports.found(key, pair)
		}
	}
	return d.reports.look(ctx, after)
}

// schedulersOf are the schedulers of the pods that are on nodes, by the UIDs of the pods.
type schedulersOf map[types.UID]string

func isOnNode(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil }

// pair are two claims that hold the same device.
type pair struct {
	device string
	claims [2]*resourceapi.ResourceClaim
}

// shared returns the pairs of claims that hold the same device.
func (d *detective) shared(ctx context.Context) (map[pairKey]pair, error) {
	claims, err := cluster.Client.ResourceV1().ResourceClaims(d.space.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	holders := make(map[string]*resourceapi.ResourceClaim)
	pairs := make(map[pairKey]pair)
	for i := range claims.Items {
		claim := &claims.Items[i]
		for _, result := range checker.Results(claim) {
			device := result.Pool + "/" + result.Device
			if other := holders[device]; other != nil && other != claim {
				pairs[pairKey{other.UID, claim.UID}] = pair{device, [2]*resourceapi.ResourceClaim{other, claim}}
			}
			holders[device] = claim
		}
	}
	return pairs, nil
}

// inUse reports whether both claims have a pod that is on a node.
func (p pair) inUse(bound schedulersOf) bool {
	for _, claim := range p.claims {
		if !usedBy(claim, func(pod types.UID) bool { return bound[pod] != "" }) {
			return false
		}
	}
	return true
}

// kind says who allocated the two claims. A claim of ours that only pods of the stock scheduler
// use is stock's: they joined it, without looking, when ours yielded already.
func (p pair) kind(bound schedulersOf) string {
	ours := 0
	for _, claim := range p.claims {
		if strings.HasPrefix(claim.Name, blindPrefix) {
			return madeBlindly
		}
		if allocatedByUs(claim) && usedBy(claim, func(pod types.UID) bool { return bound[pod] != "" && bound[pod] != corev1.DefaultSchedulerName }) {
			ours++
		}
	}
	return []string{bothStock, mixed, bothOurs}[ours]
}

// usedBy reports whether one of the pods for which a claim is reserved is such a pod.
func usedBy(claim *resourceapi.ResourceClaim, such func(pod types.UID) bool) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(consumer resourceapi.ResourceClaimConsumerReference) bool { return such(consumer.UID) })
}

func allocatedByUs(claim *resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(claim.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == ourManager && entry.Subresource == "status" && entry.FieldsV1 != nil &&
			strings.Contains(entry.FieldsV1.GetRawString(), `"f:allocation"`)
	})
}

func (p pair) String() string {
	var holders []string
	for _, claim := range p.claims {
		who := "stock"
		if allocatedByUs(claim) {
			who = "ours"
		}
		holders = append(holders, fmt.Sprintf("%s (by %s, version %s)", claim.Name, who, claim.ResourceVersion))
	}
	return fmt.Sprintf("%s: %s", p.device, strings.Join(holders, " and "))
}
