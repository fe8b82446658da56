package election

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
)

// takeoverInterval is the interval of the checks whether a handover is due.
const takeoverInterval = 100 * time.Millisecond

// Election is one process's part in the election.
type Election struct {
	// Leases accesses the Lease on a separate connection: a process that cannot renew because of other requests loses
	// it.
	Leases   coordinationclient.LeasesGetter
	Identity string
	Mode     string
	// Config has the name and the duration of the Lease.
	Config componentbaseconfig.LeaderElectionConfiguration
	// Lease is updated with the state of the Lease.
	Lease *lease.Lease
	// Guard is the guard that stands for election.
	Guard Guard

	age age
}

// Guard is a guard that stands for election.
type Guard interface {
	// Candidate returns why the process must not hold the Lease at the moment, nil if it may.
	Candidate() error
	// TakeOver makes sure that writes that predecessors approved cannot be stored any more. After its success the
	// process decides in a tenure (see lease.Lease.Since), as long as it holds the Lease without a break.
	TakeOver(ctx context.Context, tenure time.Time) error
	// Decides reports whether the process decides.
	Decides() bool
	// Lead runs while the process holds the Lease.
	Lead(context.Context)
}

// Run takes part until the context ends. After losing the Lease, the process takes part again.
func (e *Election) Run(ctx context.Context) error {
	e.age.duration = e.Config.LeaseDuration.Duration
	lock := &candidateLock{&resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: e.Config.ResourceNamespace, Name: e.Config.ResourceName},
		Client:     &announcer{LeasesGetter: e.Leases, identity: e.Identity, mode: e.Mode, guard: e.Guard, age: &e.age},
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity},
	}, e.Guard}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            e.Lease.Follow(lock, e.Config.LeaseDuration.Duration),
		LeaseDuration:   e.Config.LeaseDuration.Duration,
		RenewDeadline:   e.Config.RenewDeadline.Duration,
		RetryPeriod:     e.Config.RetryPeriod.Duration,
		ReleaseOnCancel: true,
		Name:            LeaseName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: e.begin,
			OnStoppedLeading: func() {
				klog.InfoS("This guard does not decide any more: the Lease is lost or was released", "identity", e.Identity)
			},
		},
	})
	if err != nil {
		return err
	}
	wait.UntilWithContext(ctx, elector.Run, time.Second)
	return nil
}

// begin runs when the process gets the Lease.
//
// While a process is paused, another one may take the Lease and release it; the elector then continues as if nothing
// had happened. So begin checks the tenure repeatedly.
func (e *Election) begin(ctx context.Context) {
	go e.Guard.Lead(ctx)
	var waiting time.Time // the tenure whose wait is already logged
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		// Read the tenure first: if it ends meanwhile, the rest has no effect.
		tenure := e.Lease.Since()
		if e.Guard.Decides() || e.Lease.Leads() != nil {
			return
		}
		logger := klog.LoggerWithValues(klog.FromContext(ctx), "identity", e.Identity)
		if left := e.age.left(); left > 0 {
			if !waiting.Equal(tenure) {
				logger.Info("Got a new Lease; waiting as long as the holder of a deleted Lease may still decide", "wait", left.Round(time.Millisecond))
				waiting = tenure
			}
			return
		}
		logger.Info("Got the Lease; finding out which approved allocations may still be stored")
		if err := e.Guard.TakeOver(ctx, tenure); err != nil {
			logger.Error(err, "Lost the Lease before anything was decided")
		}
	}, takeoverInterval)
}
