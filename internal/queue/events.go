package queue

import (
	"context"

	"github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Events wakes the pods of one profile of the scheduler that an event may help.
type Events struct {
	Pods  *Pods
	Waker *Waker
	Made  *ClaimsMade
	// Claims finds the pods that use a claim, and Pools returns a pool with all its devices, nil if there is none.
	Claims *claims.Claims
	Pools  interface {
		Pool(id inventory.PoolID) *inventory.NodePool
	}
	// Context limits the time for evaluating which pods an event helps, see NewContext.
	Context context.Context
}
