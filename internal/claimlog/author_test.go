package claimlog

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/claimwriter"
)

func TestAuthor(t *testing.T) {
	t.Parallel()
	const (
		allocation = `{"f:status":{"f:allocation":{".":{},"f:devices":{}}}}`
		reserved   = `{"f:status":{"f:reservedFor":{}}}`
		drivers    = `{"f:status":{"f:devices":{"k:{\"device\":\"f:allocation\"}":{}}}}`
		elsewhere  = `{"f:spec":{"f:allocation":{}}}`
	)
	us, them := claimwriter.FieldManager, "kube-scheduler"
	withoutFields := managed(us, "status", allocation)
	withoutFields.FieldsV1 = nil
	for name, tc := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		ours    bool
		timed   bool
	}{
		"nothing recorded":                  {nil, false, false},
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
