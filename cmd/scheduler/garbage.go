package main

import (
	"context"
	"os"
	"runtime/debug"

	"k8s.io/client-go/tools/cache"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"github.com/quartermaster-dra/quartermaster/pkg/plugins/quartermaster"
)

// fillingPercent is the growth of the heap between two collections while informers fill (GOGC). All allocations of
// that time add up to three times what stays, so the heap does not get much larger than with 200. The value limits
// the heap for a server that sends everything repeatedly.
const fillingPercent = 400

// collectLess reduces garbage collection until filled returns: while informers fill, most of the allocated memory
// stays, and each collection scans all of it. Explicit settings of GOGC or GOMEMLIMIT take precedence.
func collectLess(filled func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	before := debug.SetGCPercent(fillingPercent)
	go func() {
		filled()
		debug.SetGCPercent(before)
	}()
}

// waitFilled waits until the largest informers have their initial lists and the plugin has processed them, or until
// ctx is done.
func waitFilled(ctx context.Context, c *schedulerconfig.CompletedConfig) {
	core, api := c.InformerFactory.Core().V1(), c.InformerFactory.Resource().V1()
	cache.WaitFor(ctx, "", core.Nodes().Informer().HasSyncedChecker(), core.Pods().Informer().HasSyncedChecker(),
		api.ResourceSlices().Informer().HasSyncedChecker(), api.ResourceClaims().Informer().HasSyncedChecker())
	if state := quartermaster.StateOf(c.InformerFactory); state != nil {
		_ = state.Known(ctx) // An error here also ends the scheduler.
	}
}
