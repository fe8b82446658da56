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

	"github.com/quartermaster-dra/quartermaster/internal/leadership"
)

// takeoverInterval is how often to look whether a takeover is due.
const takeoverInterval = 100 * time.Millisecond

// Election is the part that a process has in it.
type Election struct {
	// Leases is for the Lease, with a connection of its own: whoever cannot renew because other
	// requests come first loses it.
	Leases   coordinationclient.LeasesGetter
	Identity string
	Mode     string
	// Config says where the Lease is, and how long it lasts.
	Config componentbaseconfig.LeaderElectionConfiguration
	// Lease is told what becomes of it.
	Lease *leadership.Lease
	// Candidate returns why the process must not have the Lease (now), nil if it may. It is nil if that is
	// always so.
	Candidate func() error
	// TakeOver makes sure that nothing can come any more of what predecessors have approved. From
	// its success on the process decides in a tenure (see leadership.Lease.Since), as long as it has
	// the Lease without a break.
	TakeOver func(ctx context.Context, tenure time.Time) error
	// Decides reports whether the process decides.
	Decides func() bool
	// WhileLeading runs as long as the process has the Lease, nil if there is nothing to do.
	WhileLeading func(context.Context)

	age age
}

// Run takes part until the context ends. Who loses the Lease stands for election again.
func (e *Election) Run(ctx context.Context) error {
	e.age.duration = e.Config.LeaseDuration.Duration
	var lock resourcelock.Interface = &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: e.Config.ResourceNamespace, Name: e.Config.ResourceName},
		Client:     &announcer{LeasesGetter: e.Leases, identity: e.Identity, mode: e.Mode, decides: e.Decides, age: &e.age},
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity},
	}
	if e.Candidate != nil {
		lock = &candidateLock{lock, e.Candidate}
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            e.Lease.Follow(lock, e.Config.LeaseDuration.Duration),
		LeaseDuration:   e.Config.LeaseDuration.Duration,
		RenewDeadline:   e.Config.RenewDeadline.Duration,
		RetryPeriod:     e.Config.RetryPeriod.Duration,
		ReleaseOnCancel: true,
		Name:            LeaseName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: e.begin,
			OnStoppedLeading: func() { klog.InfoS("Deciding no more: the Lease is lost or was released", "identity", e.Identity) },
		},
	})
	if err != nil {
		return err
	}
	wait.UntilWithContext(ctx, elector.Run, time.Second)
	return nil
}

// begin is called with the Lease in hand.
//
// A process that was paused may find that its Lease was somebody else's meanwhile and is free again: the
// elector goes on then as if nothing had happened. So it is looked at again and again.
func (e *Election) begin(ctx context.Context) {
	if e.WhileLeading != nil {
		go e.WhileLeading(ctx)
	}
	var waiting time.Time // the tenure of which was said that it waits
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		// The tenure comes first: if it ends meanwhile, all that follows is for nothing.
		tenure := e.Lease.Since()
		if e.Decides() || e.Lease.Leads() != nil {
			return
		}
		logger := klog.LoggerWithValues(klog.FromContext(ctx), "identity", e.Identity)
		if left := e.age.left(); left > 0 {
			if !waiting.Equal(tenure) {
				logger.Info("Got the Lease, which is new; waiting as long as the holder of one that was deleted may decide", "wait", left.Round(time.Millisecond))
				waiting = tenure
			}
			return
		}
		logger.Info("Got the Lease; finding out what may yet be stored")
		if err := e.TakeOver(ctx, tenure); err != nil {
			logger.Error(err, "Lost the Lease before anything was decided")
		}
	}, takeoverInterval)
}
