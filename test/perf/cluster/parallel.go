package cluster

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// InParallel calls do for 0 to count-1 and stops at the first error.
func InParallel(ctx context.Context, count int, do func(i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range count {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}
