package beside

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

const (
	// handovers are how often the leader goes, and the other one takes over.
	handovers = 2
	// Pods that are created before each handover and at the start: those with a claim of their own, claims that
	// are shared, and pods for each of these.
	ownClaims, sharedClaims, sharers = 22, 3, 4
	handoverPods                     = ownClaims + sharedClaims*sharers
	// There are exactly as many devices as claims.
	handoverNodes   = 5
	handoverDevices = (handovers + 1) * (ownClaims + sharedClaims) / handoverNodes
	// handoverQPS has these pods last for seconds: each needs four requests or more.
	handoverQPS = 50
)

// TestHandover has manifests/replace-default take over from kube-scheduler and back while a
// burst runs, as its kustomization.yaml says: both wait for the same lease. Those that
// lead are stopped there and killed back.
func TestHandover(t *testing.T) {
	harness.Long(t, "the lease is handed over twice")
	b := newHandover(t)
	stock := b.startStockForLease()
	ours := b.startReplicas()
	leading, waiting, interrupted := []*scheduler.Process{stock}, ours, 0
	b.createHandoverPods(0)
	for handover := range handovers {
		b.bindAtLeast(handover*handoverPods + handoverPods/2)
		b.createHandoverPods(handover + 1)
		end := (*scheduler.Process).Stop
		if handover >= handovers/2 {
			end = (*scheduler.Process).Kill
		}
		atOnce(t, leading, end)
		bound, all := b.Bound(), (handover+2)*handoverPods
		t.Logf("handover %d with %d of %d pods bound and %d pods' claims allocated", handover+1, bound, all, b.Allocated())
		if bound < all {
			interrupted++
		}
		// The others lead now, and these wait for their turn.
		leading, waiting = waiting, leading
		b.bindAtLeast(min(bound+1, all))
		atOnce(t, waiting, func(p *scheduler.Process) error { return p.Restart(t.Context()) })
	}
	require.Positive(t, interrupted, "the burst was over before each handover")
	b.Eventually("run all pods", func(context.Context) error {
		pods := b.Pods()
		for _, pod := range pods {
			if err := b.Runs(pod); err != nil {
				return err
			}
		}
		require.Len(t, pods, (handovers+1)*handoverPods)
		return nil
	})
	require.Empty(t, b.violations())
	b.CheckSettled()
}

// atOnce does something with processes at the same time: one after the other, the lease would
// go from replica to replica meanwhile.
func atOnce(t *testing.T, processes []*scheduler.Process, do func(*scheduler.Process) error) {
	t.Helper()
	errs := make([]error, len(processes))
	var doing sync.WaitGroup
	for i, process := range processes {
		doing.Go(func() { errs[i] = do(process) })
	}
	doing.Wait()
	require.NoError(t, errors.Join(errs...))
}

// createHandoverPods creates the next pods of the burst.
func (b *board) createHandoverPods(part int) {
	b.T.Helper()
	b.CreatePods(fmt.Sprintf("own-%d", part), ownClaims)
	for claim := range sharedClaims {
		name := fmt.Sprintf("shared-%d-%d", part, claim)
		b.Create(builder.Claim(name, b.Want(1)).Obj())
		for pod := range sharers {
			b.Create(b.Pod(fmt.Sprintf("%s-%d", name, pod), builder.Uses(name)))
		}
	}
}

// newHandover makes a board for pods of the default scheduler, with a device for each claim.
func newHandover(t *testing.T) *board {
	t.Helper()
	config := cluster.ControlPlane.AdminConfig()
	install := func(ctx context.Context, overlay string) {
		require.NoError(t, manifests.Apply(ctx, config, overlay, manifests.ApplyOptions{RBACOnly: true}))
	}
	install(t.Context(), manifests.ReplaceDefault)
	t.Cleanup(func() { install(context.Background(), manifests.Secondary) })
	b := &board{Space: cluster.NewSpace(t, "handover", corev1.DefaultSchedulerName, handoverNodes)}
	b.Patience = harness.TakeoverPatience
	for node := range handoverNodes {
		b.Devices(node, harness.Numbered(handoverDevices)...)
	}
	b.Create(builder.Claim("one", b.Want(1)).Template())
	return b
}

// startStockForLease starts a kube-scheduler as a cluster has it, and waits until it is ready.
func (b *board) startStockForLease() *scheduler.Process {
	b.T.Helper()
	process := b.startUnchanged("stock", fmt.Sprintf("clientConnection: {qps: %d, burst: %d}\n", handoverQPS, handoverQPS),
		scheduler.Options{ExtraArgs: harness.ShortLeaseFlags})
	b.stopAtEnd(process)
	return process
}

// startReplicas starts both replicas of manifests/replace-default.
func (b *board) startReplicas() []*scheduler.Process {
	b.T.Helper()
	var replicas []*scheduler.Process
	for _, name := range []string{"a", "b"} {
		replica := b.StartScheduler(harness.SchedulerOptions{
			Overlay: manifests.ReplaceDefault, Name: b.Name + "-" + name, LeaderElection: true, QPS: handoverQPS, ExtraArgs: harness.ShortLeaseFlags,
		})
		replicas = append(replicas, replica.Process)
	}
	return replicas
}

// bindAtLeast waits until so many pods are bound.
func (b *board) bindAtLeast(pods int) {
	b.T.Helper()
	b.Eventually(fmt.Sprintf("bind %d pods", pods), func(context.Context) error {
		if bound := b.Bound(); bound < pods {
			return fmt.Errorf("%d are bound", bound)
		}
		return nil
	})
}
