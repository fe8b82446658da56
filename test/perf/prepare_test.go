package perf

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	scheduler_perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"

	"github.com/quartermaster-dra/quartermaster/test/perf/cluster"
	"github.com/quartermaster-dra/quartermaster/test/perf/report"
	"github.com/quartermaster-dra/quartermaster/test/perf/timing"
	"github.com/quartermaster-dra/quartermaster/test/perf/workload"
)

// preparation is what happens to a cluster between its nodes and its pods: devices
// are published, and some of them taken. Upstream's operations for that work on one
// object after the other, which takes hours for the largest clusters.
type preparation struct {
	recorder *timing.Recorder
	c        workload.Case
	w        workload.Workload
	// takenBy is the field manager of the claims that occupy devices.
	takenBy string
	// label is what the plugin is called in the table.
	label string
	// guardLog is where the guard writes its log to; "" if there is to be none.
	guardLog string

	// calls is the number of createNodes operations so far.
	calls int
	// slices is the number of slices published, took the time that it took until the
	// scheduler's informers had them.
	slices int
	took   time.Duration
	// published are the slices, and gangs what became of the gangs.
	published []*resourceapi.ResourceSlice
	gangs     []report.Result
}

// nodesCreated runs after each createNodes operation of a workload. It returns when
// the scheduler knows of everything, so that catching up is not measured later.
func (p *preparation) nodesCreated(tCtx ktesting.TContext, _ *scheduler.Scheduler, _ *scheduler_perf.Workload, nodes *v1.NodeList) error {
	p.calls++
	if p.calls == 2 && p.c.Gangs != nil {
		return p.placeGangs(tCtx)
	}
	publishAt := 1
	if p.c.MeasurePublishing {
		publishAt = 2
	}
	if p.calls != publishAt {
		return nil
	}
	slices, err := p.slicesFor(len(nodes.Items))
	if err != nil {
		return err
	}
	informers := p.recorder.Handle().SharedInformerFactory()
	start := time.Now()
	if err := cluster.Publish(tCtx, tCtx.Client(), slices); err != nil {
		return fmt.Errorf("publish slices: %w", err)
	}
	if err := cluster.AwaitInformed(tCtx, informers, len(slices), 0); err != nil {
		return err
	}
	p.slices, p.took, p.published = len(slices), time.Since(start), slices

	claims, err := cluster.Occupying(slices, p.w.OccupiedClaims, max(p.c.Occupied.DevicesPerClaim, 1), p.c.Occupied.ClaimsPerNode)
	if err != nil || len(claims) == 0 {
		return err
	}
	if p.guardLog != "" {
		if err := startGuard(tCtx, p.guardLog); err != nil {
			return err
		}
	}
	if err := cluster.Occupy(tCtx, tCtx.Client(), claims, p.takenBy); err != nil {
		return err
	}
	return cluster.AwaitInformed(tCtx, informers, len(slices), len(claims))
}

// slicesFor makes the slices of all drivers for so many nodes.
func (p *preparation) slicesFor(nodes int) ([]*resourceapi.ResourceSlice, error) {
	slices, err := cluster.Slices(p.c.Slices, nodes/max(p.c.NodesPerSlice, 1))
	if err != nil {
		return nil, err
	}
	for _, shared := range p.c.MoreSlices {
		more, err := cluster.Slices(shared.Templates, nodes/max(shared.NodesPerSlice, 1))
		if err != nil {
			return nil, err
		}
		slices = append(slices, more...)
	}
	return slices, nil
}
