package commitorder

import (
	"bytes"
	"encoding/json"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/commit"
)

// author says who wrote an allocation, as the API server has recorded it.
type author struct {
	// ours is true for all instances that write as package commit does.
	ours bool
	// at is when, to the second; zero if that was not recorded.
	at time.Time
}

// authorOf looks for the manager of status.allocation. An allocation never changes, and
// ownership ends with it, so this is who made it. Without an owner it counts as foreign.
func authorOf(claim *resourceapi.ResourceClaim) author {
	var result author
	for i := range claim.ManagedFields {
		entry := &claim.ManagedFields[i]
		if entry.Subresource != "status" || !ownsAllocation(entry.FieldsV1) {
			continue
		}
		if entry.Time != nil && entry.Time.After(result.at) {
			result.at = entry.Time.Time
		}
		result.ours = result.ours || entry.Manager == commit.FieldManager
	}
	return result
}

func ownsAllocation(fields *metav1.FieldsV1) bool {
	raw := fields.GetRawBytes()
	if !bytes.Contains(raw, []byte(`"f:allocation"`)) {
		return false
	}
	var owned struct {
		Status struct {
			Allocation json.RawMessage `json:"f:allocation"`
		} `json:"f:status"`
	}
	return json.Unmarshal(raw, &owned) == nil && owned.Status.Allocation != nil
}
