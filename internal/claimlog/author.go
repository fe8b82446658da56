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
type author struct {
	// ours is true for all instances that write as package commit does.
	ours bool
	// others are the field managers that are not ours, usually none or one.
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
		if entry.Subresource != "status" || !ownsAllocation(entry.FieldsV1) {
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

// allocationFirst is how the server writes managed fields of a status in which the allocation is owned, fields being sorted.
var allocationFirst = []byte(`{"f:status":{"f:allocation":`)

func ownsAllocation(fields *metav1.FieldsV1) bool {
	raw := fields.GetRawBytes()
	if bytes.HasPrefix(raw, allocationFirst) {
		return true // Nearly all are like that, and to parse them is most of what a list costs.
	}
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
