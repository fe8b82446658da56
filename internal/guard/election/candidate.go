package election

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// candidateLock keeps a process from taking and renewing the Lease while it must not. It is looked at
// all the same: when the process may, it knows already for how long the Lease has not been renewed.
type candidateLock struct {
	resourcelock.Interface
	candidate func() error
}

// Create implements resourcelock.Interface.
func (c *candidateLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := c.check(&record); err != nil {
		return err
	}
	return c.Interface.Create(ctx, record)
}

// Update implements resourcelock.Interface.
func (c *candidateLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := c.check(&record); err != nil {
		return err
	}
	return c.Interface.Update(ctx, record)
}

// check returns why a record must not be written; what releases the Lease always may.
func (c *candidateLock) check(record *resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		return nil
	}
	if err := c.candidate(); err != nil {
		return fmt.Errorf("not standing for election as the guard that decides (now): %w", err)
	}
	return nil
}
