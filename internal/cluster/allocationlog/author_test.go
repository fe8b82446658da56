package allocationlog

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

func TestAuthor(t *testing.T) {
	t.Parallel()
	const (
		allocation = `{"f:status":{"f:allocation":{".":{},"f:devices":{".":{},"f:results":{}}}}}`
		parsed     = `{"f:status":{".":{},"f:allocation":{"f:devices":{"f:results":{}}}}}`
		handles    = `{"f:status":{"f:allocation":{"f:resourceHandles":{}}}}`
		// forged is an entry that may remain of the fields that users wrote before the claim was
		// allocated.
		forged    = `{"f:status":{"f:allocation":{".":{},"f:devices":{".":{},"f:config":{}}},"f:x":{"f:results":{}}}}`
		reserved  = `{"f:status":{"f:reservedFor":{}}}`
		drivers   = `{"f:status":{"f:devices":{"k:{\"device\":\"f:allocation\"}":{}}}}`
		elsewhere = `{"f:spec":{"f:allocation":{}}}`
	)
	us, them := write.FieldManager, "kube-scheduler"
	withoutFields := managed(us, "status", allocation)
	withoutFields.FieldsV1 = nil
	for name, tc := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		ours    bool
		timed   bool
	}{
		"nothing recorded":                  {nil, false, false},
		"ours, written otherwise":           {[]metav1.ManagedFieldsEntry{managed(us, "status", parsed)}, true, true},
		"theirs, forged as ours":            {[]metav1.ManagedFieldsEntry{managed(us, "status", forged), managed(them, "status", allocation)}, false, true},
		"ours, forged as theirs":            {[]metav1.ManagedFieldsEntry{managed(them, "status", forged), managed(us, "status", allocation)}, true, true},
		"forged as ours, nothing recorded":  {[]metav1.ManagedFieldsEntry{managed(us, "status", forged), managed("ancient-changes", "", allocation)}, false, false},
		"handles in the newest version":     {[]metav1.ManagedFieldsEntry{managed(us, "status", handles)}, false, false},
		"ours":                              {[]metav1.ManagedFieldsEntry{managed(us, "status", allocation)}, true, true},
		"theirs":                            {[]metav1.ManagedFieldsEntry{managed(them, "status", allocation)}, false, true},
		"ours, reserved by them":            {[]metav1.ManagedFieldsEntry{managed(them, "status", reserved), managed(us, "status", allocation)}, true, true},
		"theirs, reserved by us":            {[]metav1.ManagedFieldsEntry{managed(us, "status", reserved), managed(them, "status", allocation)}, false, true},
		"ours, a driver reports on it":      {[]metav1.ManagedFieldsEntry{managed(us, "status", allocation), managed("driver", "status", drivers)}, true, true},
		"theirs, we own something like it":  {[]metav1.ManagedFieldsEntry{managed(us, "status", drivers), managed(us, "status", elsewhere), managed(them, "status", allocation)}, false, true},
		"theirs, with our finalizer":        {[]metav1.ManagedFieldsEntry{managed(us, "", `{"f:metadata":{"f:finalizers":{}}}`), managed(them, "status", allocation)}, false, true},
		"not in the status":                 {[]metav1.ManagedFieldsEntry{managed(us, "", allocation)}, false, false},
		"an entry without fields":           {[]metav1.ManagedFieldsEntry{withoutFields}, false, false},
		"an entry that is not understood":   {[]metav1.ManagedFieldsEntry{managed(us, "status", `"f:allocation"`)}, false, false},
		"a name that only begins like ours": {[]metav1.ManagedFieldsEntry{managed(us+"-2", "status", allocation)}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := free("x")
			claim.ManagedFields = tc.entries
			got := authorOf(claim)
			require.Equal(t, tc.ours, got.ours)
			require.Equal(t, tc.timed, !got.at.IsZero())
		})
	}
}

// TestAllocatedFor: only the write that allocates a claim tells whose scheduler that was.
func TestAllocatedFor(t *testing.T) {
	t.Parallel()
	reserved := func(claim *resourceapi.ResourceClaim, pods ...string) *resourceapi.ResourceClaim {
		for _, pod := range pods {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID(pod)})
		}
		return claim
	}
	unrecorded := foreign("x", "gpu-0")
	unrecorded.ManagedFields = nil
	ofGroup := reserved(ours("x", "gpu-0"), "p")
	ofGroup.Status.ReservedFor[0].APIGroup = "scheduling.k8s.io"
	for name, tc := range map[string]struct {
		before, claim, after *resourceapi.ResourceClaim
		pod                  types.UID
		ours, known          bool
	}{
		"ours":               {claim: reserved(ours("x", "gpu-0"), "p"), pod: "p", ours: true, known: true},
		"theirs":             {claim: reserved(foreign("x", "gpu-0"), "p"), pod: "p", known: true},
		"nobody's":           {claim: reserved(unrecorded, "p")},
		"for nobody":         {claim: ours("x", "gpu-0")},
		"for two":            {claim: reserved(ours("x", "gpu-0"), "p", "q")},
		"for a group":        {claim: ofGroup},
		"for others later":   {claim: reserved(ours("x", "gpu-0"), "p"), after: reserved(foreign("x", "gpu-0"), "q"), pod: "p", ours: true, known: true},
		"for somebody later": {claim: ours("x", "gpu-0"), after: reserved(ours("x", "gpu-0"), "p")},
		"before the start":   {before: reserved(ours("x", "gpu-0"), "p"), claim: reserved(ours("x", "gpu-0"), "p")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newUnsyncedWorld(t)
			if tc.before != nil {
				w.relist(5, at(5, tc.before))
			} else {
				w.relist(5)
			}
			w.write(10, tc.claim)
			if tc.after != nil {
				w.write(20, tc.after)
			}
			pod, ours, known := w.AllocatedFor(uidOf("x"))
			require.Equal(t, tc.pod, pod)
			require.Equal(t, tc.ours, ours)
			require.Equal(t, tc.known, known)
		})
	}
}

// TestNamespacesApart: what is announced and allocated in a namespace tells nothing about another one.
func TestNamespacesApart(t *testing.T) {
	t.Parallel()
	elsewhere := func(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
		claim.Namespace = "elsewhere"
		return claim
	}
	w := newWorldWithThem(t)
	w.pass(time.Hour)
	w.write(10, elsewhere(protected(them, "x")))
	w.pass(time.Second)
	require.Empty(t, w.Announced(builder.Namespace))
	require.Zero(t, w.ForeignDelay(builder.Namespace))
	require.False(t, w.LastForeign(builder.Namespace).After(start))
	require.Len(t, w.Announced("elsewhere"), 1)
	require.Equal(t, time.Second, w.ForeignDelay("elsewhere"))
	require.Equal(t, time.Second, w.LongestForeignDelay())
	w.write(20, elsewhere(foreign("y", "gpu-0")))
	there, others := w.ForeignIn(inventory.PoolID{Driver: builder.Driver, Name: "a"}, builder.Namespace)
	require.False(t, there.After(start))
	require.Equal(t, w.clock.Now(), others)
	there, others = w.ForeignIn(inventory.PoolID{Driver: builder.Driver, Name: "a"}, "elsewhere")
	require.Equal(t, w.clock.Now(), there)
	require.False(t, others.After(start))
}

// TestNamespacesAreForgotten: there may be any number of them.
func TestNamespacesAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorldWithThem(t)
	for i := range 20 * minBacklogs {
		claim := foreign(fmt.Sprint("x", i), fmt.Sprint("gpu-", i))
		claim.Namespace = fmt.Sprint("namespace-", i)
		w.write(uint64(10+2*i), claim)
		w.remove(uint64(11+2*i), claim)
		w.pass(time.Second)
	}
	require.LessOrEqual(t, len(w.backlog.of), 3*minBacklogs)
	for _, last := range w.lastForeignIn {
		require.LessOrEqual(t, len(last), 2*maxNamespaces)
	}
}
