package allocationlog

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
)

// While a cluster is upgraded, one instance may write in v1 and another in v1beta1. The server
// keeps one entry for each version, and readers get them in any version.
func TestAuthorInAnyVersion(t *testing.T) {
	t.Parallel()
	const others = `{"manager": "kube-scheduler", "operation": "Update", "apiVersion": "resource.k8s.io/v1", "subresource": "status",
		"fieldsType": "FieldsV1", "time": "2026-01-02T03:04:05Z", "fieldsV1": {"f:status": {"f:allocation": {".": {}, "f:devices": {"f:results": {}}}}}}`
	ours := func(version, fields string) string {
		return `{"manager": "` + write.FieldManager + `", "operation": "Update", "apiVersion": "resource.k8s.io/` + version + `", "subresource": "status",
			"fieldsType": "FieldsV1", "time": "2026-01-02T03:04:06Z", "fieldsV1": {"f:status": ` + fields + `}}`
	}
	const allocation = `{".": {}, "f:allocation": {".": {}, "f:devices": {"f:results": {}}}, "f:reservedFor": {"k:{\"uid\":\"a\"}": {}}}`
	const reservation = `{"f:reservedFor": {"k:{\"uid\":\"b\"}": {}}}`
	for name, tc := range map[string]struct {
		entries string
		ours    bool
	}{
		"v1alpha2":                           {entries: ours("v1alpha2", `{"f:allocation": {"f:resourceHandles": {}}}`), ours: true},
		"v1beta1":                            {entries: ours("v1beta1", allocation), ours: true},
		"v1beta2":                            {entries: ours("v1beta2", allocation), ours: true},
		"allocated in v1beta1, joined in v1": {entries: ours("v1beta1", allocation) + "," + ours("v1", reservation), ours: true},
		"allocated in v1, joined in v1beta1": {entries: ours("v1beta1", reservation) + "," + ours("v1", allocation), ours: true},
		"foreign, joined in v1beta1":         {entries: others + "," + ours("v1beta1", reservation), ours: false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := &resourceapi.ResourceClaim{}
			require.NoError(t, json.Unmarshal([]byte(`{"metadata": {"managedFields": [`+tc.entries+`]}}`), claim))
			got := authorOf(claim)
			require.Equal(t, tc.ours, got.ours)
			require.Equal(t, time.January, got.at.UTC().Month())
		})
	}
}
