package claimlog

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/claimwriter"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// author says who wrote an allocation, as the API server has recorded it.
//
// Users may write whatever they like into managedFields of a claim, but not with the write that
// allocates it: only who may update the status does that, and the server records for it who owns
// the list of results, which nobody else owns any more then. So of what else is recorded, nothing
// counts; and once the claim is allocated, no later state of it tells who has done that.
type author struct {
	// ours is true for all instances that write as package commit does.
	ours bool
	// others are the field managers that are not ours, usually none or one. If it is not ours and
	// there are none, then nobody is recorded: users may have that turned off for a claim of theirs.
	others []string
	// at is when, to the second; zero if that was not recorded.
	at time.Time
}

// authorOf looks for the manager of status.allocation. An allocation never changes, and
// ownership ends with it, so this is who made it. Without an owner it counts as foreign.
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
		if entry.Manager == claimwriter.FieldManager {
			result.ours = true
		} else {
			result.others = append(result.others, entry.Manager)
		}
	}
	return result
}

// withResults is how the server writes managed fields of a status in which the results are owned, fields being sorted.
var withResults = [][]byte{
	[]byte(`{"f:status":{"f:allocation":{".":{},"f:allocationTimestamp":{},"f:devices":{".":{},"f:results":{}`),
	[]byte(`{"f:status":{"f:allocation":{".":{},"f:devices":{".":{},"f:results":{}`),
}

// ownsAllocation reports whether an entry owns the list of allocated devices.
func ownsAllocation(entry *metav1.ManagedFieldsEntry) bool {
	raw := entry.FieldsV1.GetRawBytes()
	for _, prefix := range withResults {
		if bytes.HasPrefix(raw, prefix) {
			return true // Nearly all are like that, and to parse them is most of what a list costs.
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
				// Handles is what v1alpha2 has in place of results. Newer servers drop entries of that version.
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

// ownedFinalizer is how managed fields name the finalizer that protects a claim.
var ownedFinalizer = []byte(`"v:\"` + resourceapi.Finalizer + `\""`)

// announcementOf returns who protects a claim, and since when at the earliest as far as
// that was recorded. A scheduler writes the finalizer in the same way as allocations, but
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

// ours reports whether an instance of ours has protected the claim.
func (a *announcement) ours() bool { return slices.Contains(a.by, claimwriter.FieldManager) }
