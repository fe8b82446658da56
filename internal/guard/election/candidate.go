package election

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// candidateLock keeps a process from taking or renewing the Lease while it must not hold it. The process still reads
// the Lease: when it may hold it, it has already measured the time since the last renewal.
type candidateLock struct {
	resourcelock.Interface
	guard Guard
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

// check returns why a record must not be written. A record that releases the Lease is always allowed.
func (c *candidateLock) check(record *resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		return nil
	}
	if err := c.guard.Candidate(); err != nil {
		return fmt.Errorf("not taking part in the election of the guard that decides (now): %w", err)
	}
	return nil
}
