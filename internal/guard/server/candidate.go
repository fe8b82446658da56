package server

import (
	"context"
	"errors"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/guard"
	"github.com/quartermaster-dra/quartermaster/internal/guard/registration"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// candidate is the guard in the election. It implements election.Guard.
type candidate struct {
	*guard.Guard
	scheduler lease.Leadership // nil without a scheduler in this process
	holdings  *Holdings
	registrar *registration.Registrar
	lookout   *registration.Lookout
	fencer    *guard.Fencer
}

// Candidate implements election.Guard.
func (c *candidate) Candidate() error {
	if err := c.lookout.Candidate(); err != nil || c.scheduler == nil {
		return err
	}
	return c.scheduler.Leads()
}

// TakeOver implements election.Guard.
func (c *candidate) TakeOver(ctx context.Context, tenure guard.Tenure) error {
	if err := c.History.Look(ctx); errors.Is(err, informer.ErrWentBack) {
		return err
	}
	if err := c.holdings.Sync(ctx); err != nil {
		return err
	}
	// Register first, so that API servers ask before the claims are fenced: allocations that passed until then are
	// based on versions before the fences.
	if err := c.registrar.Register(ctx); err != nil {
		return err
	}
	return c.Guard.TakeOver(ctx, tenure, c.fencer, c.holdings.Ledger)
}

// Lead implements election.Guard.
func (c *candidate) Lead(ctx context.Context) {
	go c.registrar.Run(ctx)
	c.Sweep(ctx, c.fencer)
}
