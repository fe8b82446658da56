package ledger

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// HeldError reports that another claim holds a device that a plan needs.
type HeldError struct {
	Claim  ClaimRef // claim that wants the device
	Pool   inventory.PoolID
	Device string
	Holder ClaimRef // claim that has it
}

func (e *HeldError) Error() string {
	holder := "a claim of another namespace" // The users of this claim must not learn its name.
	if e.Holder.Namespace == e.Claim.Namespace {
		holder = "claim " + e.Holder.String()
	}
	return fmt.Sprintf("claim %s was to get device %s/%s but %s holds it by now; looking for other devices",
		e.Claim, e.Pool, e.Device, holder)
}

// held returns an error if another claim uses a device that the allocation needs exclusively, holds
// exclusively a device that it wants to share, or has the same share ID: drivers and other
// schedulers tell shares of a device apart by their ID (KEP-5075).
func (l *Ledger) held(ref ClaimRef, allocation *resourceapi.AllocationResult) error {
	for result := range Used(allocation) {
		usage := l.Pool(PoolOf(result)).Device(result.Device)
		holders := usage.Holders
		for _, share := range usage.Shares {
			if result.ShareID == nil || *result.ShareID == share.ID {
				holders = append(holders[:len(holders):len(holders)], share.Holder)
			}
		}
		for _, holder := range holders {
			if holder.UID != ref.UID {
				return &HeldError{Claim: ref, Pool: PoolOf(result), Device: result.Device, Holder: holder}
			}
		}
	}
	return nil
}
