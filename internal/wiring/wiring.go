// Package wiring assembles this scheduler from kube-scheduler's parts and the replaced ones. It is the only place for
// that, so that test/simulation runs the same scheduler as cmd/scheduler.
package wiring

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/informer/factory"
	"github.com/quartermaster-dra/quartermaster/pkg/plugins/gangplacement"
	"github.com/quartermaster-dra/quartermaster/pkg/plugins/quartermaster"
)

// Plugins returns the plugins that are compiled in.
func Plugins() []app.Option {
	return []app.Option{app.WithPlugin(quartermaster.Name, quartermaster.New), app.WithPlugin(gangplacement.Name, gangplacement.New)}
}

// Context returns a context with a lease that the plugins of the process share.
func Context(ctx context.Context) context.Context {
	return lease.NewContext(ctx, new(lease.Lease))
}

// New returns a scheduler for a configuration with clients and informers. ctx must come from Context. profileBuilt is
// called with each profile after its defaults are set.
func New(ctx context.Context, c *schedulerconfig.Config, plugins []app.Option, profileBuilt func(config.KubeSchedulerProfile)) (*schedulerconfig.CompletedConfig, *scheduler.Scheduler, error) {
	if election := c.LeaderElection; election != nil {
		election.Lock = lease.Of(ctx).Follow(election.Lock, election.LeaseDuration)
	}
	if err := factory.Informers(c.InformerFactory); err != nil {
		return nil, nil, err
	}
	c.InformerFactory = factory.WithSafeHandlers(c.InformerFactory)
	completed := c.Complete()
	registry := make(runtime.Registry)
	for _, register := range plugins {
		if err := register(registry); err != nil {
			return nil, nil, err
		}
	}
	recorder := func(name string) events.EventRecorderLogger { return completed.EventBroadcaster.NewRecorder(name) }
	sched, err := scheduler.New(ctx, completed.Client, completed.InformerFactory, completed.DynInformerFactory, recorder,
		options(&completed, registry, profileBuilt)...)
	if err != nil {
		return nil, nil, err
	}
	tellMoved(sched)
	if err := tellFreedRoom(ctx, sched, completed.InformerFactory.Core().V1().Pods().Informer()); err != nil {
		return nil, nil, err
	}
	return &completed, sched, nil
}

// WatchHistory returns an error when the process must start over because the server's store went back in time:
// informers and caches would not notice that. It returns nil when ctx is done.
func WatchHistory(ctx context.Context, client kubernetes.Interface) error {
	return informer.NewHistory(client.ResourceV1().ResourceClaims(metav1.NamespaceAll)).Run(ctx)
}

// options returns the scheduler's options for the configuration.
func options(c *schedulerconfig.CompletedConfig, registry runtime.Registry, profileBuilt func(config.KubeSchedulerProfile)) []scheduler.Option {
	configured := &c.ComponentConfig
	return []scheduler.Option{
		scheduler.WithBuildFrameworkCapturer(profileBuilt),
		scheduler.WithComponentConfigVersion(configured.APIVersion),
		scheduler.WithExtenders(configured.Extenders...),
		scheduler.WithFrameworkOutOfTreeRegistry(registry),
		scheduler.WithKubeConfig(c.KubeConfig),
		scheduler.WithParallelism(configured.Parallelism),
		scheduler.WithPercentageOfNodesToScore(configured.PercentageOfNodesToScore),
		scheduler.WithPodInitialBackoffSeconds(configured.PodInitialBackoffSeconds),
		scheduler.WithPodMaxBackoffSeconds(configured.PodMaxBackoffSeconds),
		scheduler.WithPodMaxInUnschedulablePodsDuration(c.PodMaxInUnschedulablePodsDuration),
		scheduler.WithProfiles(configured.Profiles...),
	}
}
