package main

import (
	"context"
	"os"
	"runtime/debug"

	"k8s.io/client-go/tools/cache"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"github.com/quartermaster-dra/quartermaster/pkg/plugins/quartermaster"
)

// fillingPercent is by how much the heap may grow between two collections while informers fill. All that is allocated in that time comes to
// three times what stays, so the heap does not get much larger than with 200. The limit is for a server that sends everything again and again.
const fillingPercent = 400

// collectLess has the process collect garbage less often until filled returns: as long as informers fill, most of what is allocated
// stays, and each collection looks at all of it again. Who has said how often to collect (GOGC), or how much memory there is
// (GOMEMLIMIT), gets what he has asked for.
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

// waitFilled returns when the largest informers have all that existed at the start, and the plugin knows of it, or when ctx is done.
func waitFilled(ctx context.Context, c *schedulerconfig.CompletedConfig) {
	core, api := c.InformerFactory.Core().V1(), c.InformerFactory.Resource().V1()
	cache.WaitFor(ctx, "", core.Nodes().Informer().HasSyncedChecker(), core.Pods().Informer().HasSyncedChecker(),
		api.ResourceSlices().Informer().HasSyncedChecker(), api.ResourceClaims().Informer().HasSyncedChecker())
	if state := quartermaster.StateOf(c.InformerFactory); state != nil {
		_ = state.Known(ctx) // If it fails, the scheduler ends.
	}
}
