package beside

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/test/checker"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// conflictEvent is the reason of the events about conflicts.
const conflictEvent = "DeviceConflict"

// logParts logs what a run has shown.
func (b *board) logParts(violations []checker.Violation, before []harness.Metrics) {
	b.T.Helper()
	rules := make(map[checker.Rule]int)
	for _, violation := range violations {
		rules[violation.Rule]++
	}
	f := figures{doubled: len(violations)}
	if len(b.ours) > 0 {
		f.add(before, b.readMetrics())
	}
	b.T.Logf("run %d, %v, %d pods: %d pools of which too much is used %v; ours: %d rollbacks, %d conflicts reported",
		b.played, b.profiles, partsPods(), f.doubled, rules, f.rollbacks, f.conflicts)
}

// allReported waits until every pool of which too much is used is reported: by events on a
// claim that uses it and on its pod, and by the metric.
func (b *board) allReported(violations []checker.Violation, before []harness.Metrics) {
	b.T.Helper()
	overused := b.overused()
	require.Equal(b.T, len(violations) > 0, len(overused) > 0, "the checker found %v, but overused are %v", violations, overused)
	if len(overused) == 0 {
		return
	}
	b.Eventually("report all conflicts", func(ctx context.Context) error {
		told, err := b.told(ctx)
		if err != nil {
			return err
		}
		counted := b.conflictsByPool(before)
		for pool, users := range overused {
			if !slices.ContainsFunc(users, func(claim *resourceapi.ResourceClaim) bool {
				return told.Has(claim.UID) && told.Has(claim.Status.ReservedFor[0].UID)
			}) {
				return fmt.Errorf("too much of %s is used, but none of its %d claims and their pods has an event about it", pool, len(users))
			}
			if counted[pool] == 0 {
				return fmt.Errorf("too much of %s is used, but no conflict was counted", pool)
			}
		}
		return nil
	})
	b.T.Logf("pools of which too much is used, all of them reported: %d", len(overused))
}

// overused returns the claims that use pools of which too much is used.
func (b *board) overused() map[string][]*resourceapi.ResourceClaim {
	b.T.Helper()
	claims, err := cluster.Client.ResourceV1().ResourceClaims(b.Name).List(b.T.Context(), metav1.ListOptions{})
	require.NoError(b.T, err)
	users, devices := make(map[string][]*resourceapi.ResourceClaim), make(map[string][]string)
	for i := range claims.Items {
		claim := &claims.Items[i]
		require.NotNil(b.T, claim.Status.Allocation, "claim %s of a bound pod", claim.Name)
		require.NotEmpty(b.T, claim.Status.ReservedFor, "claim %s of a bound pod", claim.Name)
		for _, result := range claim.Status.Allocation.Devices.Results {
			users[result.Pool] = append(users[result.Pool], claim)
			devices[result.Pool] = append(devices[result.Pool], result.Device)
		}
	}
	maps.DeleteFunc(users, func(pool string, _ []*resourceapi.ResourceClaim) bool { return !tooMany(pool, devices[pool]) })
	return users
}

// tooMany reports whether devices of a pool cannot be used together.
func tooMany(pool string, used []string) bool {
	distinct, bySide := sets.New(used...), sets.New[string]()
	for _, device := range used {
		side, _, _ := strings.Cut(device, "-")
		bySide.Insert(side)
	}
	switch {
	case strings.Contains(pool, "-"+nic+"-"):
		return len(used) > partsPerWhole
	case strings.Contains(pool, "-"+gpu+"-"):
		return len(used) > partsPerWhole || distinct.Len() < len(used)
	default:
		return bySide.Len() > 1 || distinct.Len() < len(used)
	}
}

// told are the UIDs of claims and pods that have an event about a conflict.
func (b *board) told(ctx context.Context) (sets.Set[types.UID], error) {
	events, err := cluster.Client.EventsV1().Events(b.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	told := sets.New[types.UID]()
	for _, event := range events.Items {
		if event.Reason == conflictEvent && event.Type == "Warning" {
			told.Insert(event.Regarding.UID)
		}
	}
	return told, nil
}

// conflictsByPool is what schedulers of ours have counted since then.
func (b *board) conflictsByPool(before []harness.Metrics) map[string]int {
	b.T.Helper()
	counted := make(map[string]int)
	for i, now := range b.readMetrics() {
		const name = "quartermaster_device_conflicts_total"
		for sample := range now.Samples(name, "driver", b.Driver) {
			pool := string(sample.Metric["pool"])
			counted[pool] += int(float64(sample.Value) - before[i].Sum(name, "driver", b.Driver, "pool", pool))
		}
	}
	return counted
}
