package beside

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/checker"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

// gates are those that the schedulers of these tests need to see all that there is too little of.
// The API server has them as well.
var gates = map[string]bool{"DRADeviceCompatibilityGroups": true}

// TestOursContendForParts has two of ours contend for counters, capacities and compatibility
// groups: together they want all of it.
func TestOursContendForParts(t *testing.T) {
	harness.Long(t, "two schedulers contend in a burst")
	b := newPartsBoard(t, "parts-ours-ours")
	b.startOursForParts("parts-1", asShipped)
	b.startOursForParts("parts-2", asShipped)
	for range runs(t) {
		before := b.readMetrics()
		b.createPartsPods()
		b.allBound()
		b.endWithout(before)
	}
}

// TestOursContendWhileDriversPublish is the same while drivers publish new generations of their
// pools. As long as a pool is not complete, nobody knows its counters.
func TestOursContendWhileDriversPublish(t *testing.T) {
	harness.Long(t, "two schedulers contend in a burst")
	b := newPartsBoard(t, "parts-published")
	b.startOursForParts("published-1", asShipped)
	b.startOursForParts("published-2", asShipped)
	for range runs(t) {
		ctx, stop := context.WithCancel(t.Context())
		published := make(chan error, 1)
		go func() { published <- b.publishAnew(ctx) }()
		before := b.readMetrics()
		b.createPartsPods()
		b.allBound()
		stop()
		require.NoError(t, <-published)
		b.endWithout(before)
	}
}

// TestOursContendForPartsBesideStock is the same beside a non-participating scheduler.
// What looking cannot prevent is left, and reported. That is much if nobody settles.
func TestOursContendForPartsBesideStock(t *testing.T) {
	harness.Long(t, "two schedulers contend in a burst")
	for name, options := range map[string]harness.SchedulerOptions{"as-shipped": asShipped, "hasty": hasty} {
		t.Run(name, func(t *testing.T) {
			b := newPartsBoard(t, "parts-"+name)
			b.startOursForParts(name, options)
			b.startStockForParts(name + "-stock")
			for range runs(t) {
				before := b.readMetrics()
				b.createPartsPods()
				b.allBound()
				b.endReported(before)
			}
		})
	}
}

// asShipped is a scheduler of ours with the configuration of manifests/secondary.
var asShipped harness.SchedulerOptions

// hasty is one that does not wait for the writes of others.
var hasty = harness.SchedulerOptions{PluginArgs: map[string]any{"settleTime": "0s"}}

// TestStockContendsForParts is the control. Like TestStockBesideStock, it asserts nothing
// about devices.
func TestStockContendsForParts(t *testing.T) {
	figuresOnly(t)
	b := newPartsBoard(t, "parts-stock-stock")
	b.startStockForParts("parts-stock-1")
	b.startStockForParts("parts-stock-2")
	for range runs(t) {
		b.createPartsPods()
		b.allBound()
		b.logParts(b.violations(), nil)
		b.deletePods()
	}
}

// endWithout ends a run: nobody has more than there is. before are the metrics at its begin.
func (b *board) endWithout(before []harness.Metrics) {
	b.T.Helper()
	violations := b.violations()
	b.logParts(violations, before)
	assert.Empty(b.T, violations)
	b.CheckSettled()
	b.deletePods()
}

// endReported ends a run: whatever somebody has too much of is reported.
func (b *board) endReported(before []harness.Metrics) {
	b.T.Helper()
	violations := b.violations()
	b.logParts(violations, before)
	b.allReported(violations, before)
	b.deletePods()
}

// startOursForParts adds a scheduler of ours with options.
func (b *board) startOursForParts(name string, o harness.SchedulerOptions) *harness.Scheduler {
	b.T.Helper()
	o.FeatureGates = gates
	return b.startOurs(name, o)
}

// startStockForParts adds a kube-scheduler that its client hardly holds back.
func (b *board) startStockForParts(name string) {
	b.T.Helper()
	b.profiles = append(b.profiles, name)
	b.stopAtEnd(b.startUnchanged(name, "clientConnection: {qps: 500, burst: 500}\nprofiles: [{schedulerName: "+name+"}]\n", scheduler.Options{
		LeaderElection: new(bool), FeatureGates: gates,
	}))
}

// startUnchanged starts a kube-scheduler with a configuration under the identity of stock
// schedulers.
func (b *board) startUnchanged(name, config string, o scheduler.Options) *scheduler.Process {
	b.T.Helper()
	var err error
	o.Kubeconfig, err = cluster.StockKubeconfig(b.T.Context())
	require.NoError(b.T, err)
	o.Config = []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" + config)
	o.LogFile = fmt.Sprintf("%s/%s-%s.log", cluster.Logs, b.Name, name)
	process, err := cluster.StartProcess(b.T.Context(), "kube-scheduler", o)
	require.NoError(b.T, err)
	stockHasRun = true
	return process
}

// createPartsPods creates the pods of both schedulers, for all kinds in turn.
func (b *board) createPartsPods() {
	b.T.Helper()
	b.played++
	var pods []*corev1.Pod
	for number := range partsFor[gpu] {
		for _, kind := range []string{gpu, nic, mig} {
			if number >= partsFor[kind] {
				continue
			}
			for i, side := range sides {
				pod := b.Pod(fmt.Sprintf("run-%d-%s-%s-%02d", b.played, kind, side, number), builder.FromTemplate(kindFor(kind, side)))
				pod.Spec.SchedulerName = b.profiles[i]
				pods = append(pods, pod)
			}
		}
	}
	errs := make([]error, len(pods))
	var creators sync.WaitGroup
	for first := range createAtATime {
		creators.Go(func() {
			for i := first; i < len(pods); i += createAtATime {
				errs[i] = b.Cluster.Objects.Create(b.T.Context(), b.Name, pods[i])
			}
		})
	}
	creators.Wait()
	require.NoError(b.T, errors.Join(errs...))
}

// partsPods is how many pods createPartsPods creates.
func partsPods() int { return len(sides) * (partsFor[gpu] + partsFor[nic] + partsFor[mig]) }

// allBound waits until all of them are bound.
func (b *board) allBound() {
	b.T.Helper()
	b.bindAtLeast(partsPods())
}

// violations are those of rules about what can be used how often.
func (b *board) violations() []checker.Violation {
	b.T.Helper()
	all, err := checker.Check(b.T.Context(), cluster.Client, checker.Options{StrictDevices: true})
	require.NoError(b.T, err)
	var found []checker.Violation
	for _, violation := range all {
		switch violation.Rule {
		case checker.DeviceHeldTwice, checker.CapacityExceeded, checker.CounterOverdrawn, checker.DevicesIncompatible, checker.DeviceMissing:
			if strings.Contains(violation.String(), b.Name) {
				found = append(found, violation)
			}
		}
	}
	return found
}
