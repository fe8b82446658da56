package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/pflag"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"github.com/quartermaster-dra/quartermaster/internal/cluster"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	guardserver "github.com/quartermaster-dra/quartermaster/internal/guard/server"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/pkg/plugins/quartermaster"
)

// guardOptions holds the flags of the guard in the scheduler: the flags of cmd/guard with the prefix --guard-.
type guardOptions struct {
	*guardserver.Options
	enabled bool
}

func newGuardOptions() *guardOptions {
	return &guardOptions{Options: guardserver.New(guardserver.Namespace, "guard-")}
}

func (o *guardOptions) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.enabled, "guard", o.enabled, "Be the guard of the cluster while this scheduler leads: API servers ask it before they store "+
		"an allocation of devices, whichever scheduler writes it. All flags --guard-... are for that.")
	for _, section := range o.Flags().FlagSets {
		flags.AddFlagSet(section)
	}
}

func (o *guardOptions) validate() error {
	if !o.enabled {
		return nil
	}
	return o.Validate()
}

// runningGuard is the guard in this process. The zero value means that no guard runs.
type runningGuard struct {
	mutex  sync.Mutex
	cancel context.CancelFunc // nil if no guard runs
	ended  chan struct{}
}

// start runs a guard on the scheduler's state, if the flags ask for it. If the guard fails later, its error arrives
// on failed.
func (g *runningGuard) start(ctx context.Context, o *guardOptions, c *schedulerconfig.CompletedConfig) (failed <-chan error, err error) {
	if !o.enabled {
		return nil, nil
	}
	state := quartermaster.StateOf(c.InformerFactory)
	if state == nil {
		return nil, errors.New("--guard: the guard decides by what plugin " + quartermaster.Name + " knows, which no profile has; " +
			"enable it, or run bin/guard")
	}
	config, err := o.Config(ctx, c.KubeConfig)
	if err != nil {
		return nil, err
	}
	config.Scheduler = lease.Of(ctx)
	ctx, cancel := context.WithCancel(ctx)
	ended, result := make(chan struct{}), make(chan error, 1)
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.cancel, g.ended = cancel, ended
	go func() {
		defer close(ended)
		klog.FromContext(ctx).Info("Starting the guard in this scheduler", "identity", config.Identity, "mode", config.Mode)
		if err := guardserver.Run(ctx, config, holdingsOf(state, c.InformerFactory)); err != nil && ctx.Err() == nil {
			result <- fmt.Errorf("the guard in this scheduler: %w", err)
		}
	}()
	return result, nil
}

// stop ends the guard, and returns when it has released its Lease. kube-scheduler's command ends the process as soon
// as it has released its own Lease; without this wait, the next scheduler would have to wait until the guard's Lease
// expires.
func (g *runningGuard) stop() {
	g.mutex.Lock()
	cancel, ended := g.cancel, g.ended
	g.mutex.Unlock()
	if cancel != nil {
		cancel()
		<-ended
	}
}

// holdingsOf returns the scheduler's state for the guard in the same process. The scheduler's in-flight allocations
// are in the same ledger, so the guard denies these devices to others before anything is written.
func holdingsOf(state *cluster.State, factory informers.SharedInformerFactory) *guardserver.Holdings {
	api := factory.Resource().V1()
	return &guardserver.Holdings{
		Ledger: state.Ledger, Scheduler: state,
		Informers: schedulerInformers{state, api.ResourceClaims().Informer(), api.ResourceSlices().Informer()},
	}
}

// schedulerInformers are the informers of the scheduler. kube-scheduler's command starts them.
type schedulerInformers struct {
	state          *cluster.State
	claims, slices cache.SharedIndexInformer
}

// Claim implements guard.StoredClaims.
func (s schedulerInformers) Claim(key string) *resourceapi.ResourceClaim {
	return informer.Object[resourceapi.ResourceClaim](s.state.Claims, key)
}

// OnClaim implements guardserver.Informers. The handler may be the first to see the event, so it updates the state.
func (s schedulerInformers) OnClaim(changed func(key string)) error {
	_, err := informer.AfterEvents(s.claims, func(key string) {
		s.state.RefreshClaim(key)
		changed(key)
	})
	return err
}

// OnSlice implements guardserver.Informers, like OnClaim.
func (s schedulerInformers) OnSlice(changed func(name string)) error {
	_, err := informer.AfterEvents(s.slices, func(name string) {
		s.state.RefreshSlice(name)
		changed(name)
	})
	return err
}

// Start implements guardserver.Informers.
func (schedulerInformers) Start(context.Context) {}

// Sync implements guardserver.Informers.
func (s schedulerInformers) Sync(ctx context.Context) error { return s.state.Known(ctx) }
