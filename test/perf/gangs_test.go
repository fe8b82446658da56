package perf

import (
	"fmt"
	"runtime"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"

	"github.com/quartermaster-dra/quartermaster/test/perf/cluster"
	"github.com/quartermaster-dra/quartermaster/test/perf/gangs"
	"github.com/quartermaster-dra/quartermaster/test/perf/report"
	"github.com/quartermaster-dra/quartermaster/test/perf/timing"
	"github.com/quartermaster-dra/quartermaster/test/perf/workload"
)

// placeGangs places the gangs of the workload, one after the other.
func (p *preparation) placeGangs(tCtx ktesting.TContext) error {
	informers := p.recorder.Handle().SharedInformerFactory()
	bound := timing.NewEvictions(workload.Namespace)
	if _, err := informers.Core().V1().Pods().Informer().AddEventHandler(bound); err != nil {
		return fmt.Errorf("watch who is bound: %w", err)
	}
	place := &gangs.Cluster{Client: tCtx.Client(), Namespace: workload.Namespace, Informers: informers, Bound: bound}
	occupied := 0
	for number, gang := range p.w.Gangs {
		if err := p.occupy(tCtx, occupied, gang.OccupiedClaims); err != nil {
			return err
		}
		occupied = gang.OccupiedClaims
		for round := range max(gang.Repeat, 1) {
			if err := p.placeGang(tCtx, place, fmt.Sprintf("gang-%d-%d", number, round), gang); err != nil {
				return err
			}
		}
	}
	return nil
}

// occupy has that many claims hold devices, of which some do already.
func (p *preparation) occupy(tCtx ktesting.TContext, already, wanted int) error {
	if wanted <= already {
		return nil
	}
	claims, err := cluster.Occupying(p.published, wanted, max(p.c.Occupied.DevicesPerClaim, 1), p.c.Occupied.ClaimsPerNode)
	if err != nil {
		return err
	}
	if err := cluster.Occupy(tCtx, tCtx.Client(), claims[already:], p.takenBy); err != nil {
		return err
	}
	return cluster.AwaitInformed(tCtx, p.recorder.Handle().SharedInformerFactory(), len(p.published), wanted)
}

// placeGang measures one gang.
func (p *preparation) placeGang(tCtx ktesting.TContext, place *gangs.Cluster, name string, gang workload.Gang) error {
	var parts [][]*v1.Pod
	for _, template := range p.c.Gangs.Pods {
		pods, err := cluster.Execute[v1.Pod](template, gang.Pods/len(p.c.Gangs.Pods))
		if err != nil {
			return err
		}
		parts = append(parts, pods)
	}
	// What was garbage before is no matter of this gang.
	runtime.GC()
	p.recorder.Restart()
	before := p.recorder.Totals()
	points, _, err := extensionPoints()
	if err != nil {
		return err
	}
	outcome, err := place.Place(tCtx, name, parts, p.c.Gangs.Patience.Duration)
	if err != nil {
		return err
	}
	totals, span := p.recorder.Totals(), p.recorder.Span()
	result := report.Result{
		Workload: fmt.Sprintf("%s/%d", workload.FullName(p.c, p.w), gang.Pods), Plugin: p.label,
		Count:      int64(outcome.Bound),
		Attempts:   totals.PreFilter.Calls - before.PreFilter.Calls,
		Nodes:      totals.Filter.Calls - before.Filter.Calls,
		PluginTime: totals.Plugin() - before.Plugin(),
		Gang:       report.Gang{Pods: int64(gang.Pods)},
	}
	after, _, err := extensionPoints()
	if err != nil {
		return err
	}
	for _, point := range cyclePoints {
		result.CycleTime += after[point] - points[point]
	}
	if outcome.Bound == gang.Pods {
		result.Elapsed = outcome.LastBound.Sub(outcome.Created)
		result.Gang.FromReady = outcome.LastBound.Sub(span.Ready)
		result.Gang.Decided = span.Reserved.Sub(span.Tried)
	}
	_, _ = fmt.Fprintf(console, "\n  %s %s: %d of %d bound after %v, decided in %v", name, result.Workload, outcome.Bound, gang.Pods,
		result.Elapsed.Round(time.Millisecond), result.Gang.Decided.Round(100*time.Microsecond))
	p.gangs = append(p.gangs, result)
	return place.Remove(tCtx, name)
}
