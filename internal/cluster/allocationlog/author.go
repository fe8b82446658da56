package allocationlog

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// author is the author of an allocation, as the API server recorded it.
//
// Users may write anything into the managedFields of a claim, except in the write that allocates
// it: only clients that may update the status can allocate, and the server records the owner of the
// list of results for that write, which then has no other owner. So no other managed field counts,
// and once the claim is allocated, no later state reliably shows its author.
type author struct {
	// ours is true for all instances that write with claims/write.FieldManager.
	ours bool
	// others lists other field managers, usually none or one. If ours is false and others is empty,
	// no author is recorded: users may disable that for their claims.
	others []string
	// at is the time of the write to the second, zero if not recorded.
	at time.Time
}

// authorOf finds the managers of status.allocation. An allocation never changes, and its ownership
// ends with it, so its manager is its author. Without a manager, it counts as foreign.
func authorOf(claim *resourceapi.ResourceClaim) author {
	var result author
	for i := range claim.ManagedFields {
		entry := &claim.ManagedFields[i]
		if entry.Subresource != "status" || !ownsAllocation(entry) {
			continue
		}
		if entry.Time != nil && entry.Time.After(result.at) {
			result.at = entry.Time.Time
		}
		if entry.Manager == write.FieldManager {
			result.ours = true
		} else {
			result.others = append(result.others, entry.Manager)
		}
	}
	return result
}

// withResults holds the usual beginnings of managed fields that own the results. The server sorts
// the fields.
var withResults = [][]byte{
	[]byte(`{"f:status":{"f:allocation":{".":{},"f:allocationTimestamp":{},"f:devices":{".":{},"f:results":{}`),
	[]byte(`{"f:status":{"f:allocation":{".":{},"f:devices":{".":{},"f:results":{}`),
}

// ownsAllocation reports whether an entry owns the list of allocated devices.
func ownsAllocation(entry *metav1.ManagedFieldsEntry) bool {
	raw := entry.FieldsV1.GetRawBytes()
	for _, prefix := range withResults {
		if bytes.HasPrefix(raw, prefix) {
			return true // Nearly all entries are like this, and parsing them would take most of the time for a list.
		}
	}
	if !bytes.Contains(raw, []byte(`"f:allocation"`)) {
		return false
	}
	var owned struct {
		Status struct {
			Allocation struct {
				Devices struct {
					Results json.RawMessage `json:"f:results"`
				} `json:"f:devices"`
				// Handles takes the place of results in v1alpha2. Newer servers drop entries of
				// that version.
				Handles json.RawMessage `json:"f:resourceHandles"`
			} `json:"f:allocation"`
		} `json:"f:status"`
	}
	if json.Unmarshal(raw, &owned) != nil {
		return false
	}
	allocation := &owned.Status.Allocation
	return allocation.Devices.Results != nil || allocation.Handles != nil && entry.APIVersion == "resource.k8s.io/v1alpha2"
}

// ownedFinalizer is the name of the claim's finalizer in managed fields.
var ownedFinalizer = []byte(`"v:\"` + resourceapi.Finalizer + `\""`)

// announcementOf returns who protects a claim with the finalizer, and the earliest time as far as
// it was recorded. A scheduler writes the finalizer with the same field manager as allocations, but
// not to the status.
func announcementOf(claim *resourceapi.ResourceClaim) *announcement {
	a := &announcement{claim: ledger.RefTo(claim), position: -1}
	for i := range claim.ManagedFields {
		entry := &claim.ManagedFields[i]
		if entry.Subresource != "" || !bytes.Contains(entry.FieldsV1.GetRawBytes(), ownedFinalizer) {
			continue
		}
		a.by = append(a.by, entry.Manager)
		if entry.Time != nil && entry.Time.After(a.since) {
			a.since = entry.Time.Time
		}
	}
	return a
}

// ours reports whether an instance of this scheduler has protected the claim.
func (a *announcement) ours() bool { return slices.Contains(a.by, write.FieldManager) }
