package ledger

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// HeldError says that a device which a plan needs is held by somebody else.
type HeldError struct {
	Claim  ClaimRef // who wants the device
	Pool   inventory.PoolID
	Device string
	Holder ClaimRef // who has it
}

func (e *HeldError) Error() string {
	holder := "a claim of another namespace" // Of which the user of this one need not know.
	if e.Holder.Namespace == e.Claim.Namespace {
		holder = "claim " + e.Holder.String()
	}
	return fmt.Sprintf("claim %s was to get device %s/%s but %s holds it by now; looking for other devices",
		e.Claim, e.Pool, e.Device, holder)
}

// held returns an error if somebody else uses a device that the allocation
// needs for itself, or has for himself a device that it wants to share, or has that very
// share: its ID is how drivers and other schedulers tell shares of a device apart (KEP-5075).
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
