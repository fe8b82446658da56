package main

import (
	"context"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/wiring"
)

// setup works like app.Setup, but its client set works with the version of resource.k8s.io that the server serves.
func setup(ctx context.Context, o *options.Options, plugins []app.Option) (*schedulerconfig.CompletedConfig, *scheduler.Scheduler, error) {
	defaults, err := latest.Default()
	if err != nil {
		return nil, nil, err
	}
	o.ComponentConfig = defaults
	if errs := o.Validate(); len(errs) > 0 {
		return nil, nil, utilerrors.NewAggregate(errs)
	}
	c, err := o.Config(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := connect(ctx, o, c); err != nil {
		return nil, nil, err
	}
	var profiles []config.KubeSchedulerProfile // with their defaults filled in
	completed, sched, err := wiring.New(ctx, c, plugins, func(p config.KubeSchedulerProfile) { profiles = append(profiles, p) })
	if err != nil {
		return nil, nil, err
	}
	if err := options.LogOrWriteConfig(klog.FromContext(ctx), o.WriteConfigTo, &completed.ComponentConfig, profiles); err != nil {
		return nil, nil, err
	}
	return completed, sched, nil
}

// connect replaces the client set and its informers if the server needs it.
func connect(ctx context.Context, o *options.Options, c *schedulerconfig.Config) error {
	if o.WriteConfigTo != "" {
		return nil // The scheduler will not run, and there may be no server.
	}
	if err := checkPodGroups(c.Client.Discovery(), utilfeature.DefaultFeatureGate); err != nil {
		return err
	}
	client := c.Client
	if utilfeature.DefaultFeatureGate.Enabled(kube.GenericWorkload) {
		var err error
		if client, err = api.WithPodGroups(client); err != nil {
			klog.FromContext(ctx).Info("Reading PodGroups in "+kube.PodGroupVersion.Version, "err", err)
		}
	}
	if client = api.Connect(ctx, client); client == c.Client {
		return nil
	}
	c.Client = client
	o.InformerName.Release() // The informers that had the name are never started.
	var err error
	if o.InformerName, err = cache.NewInformerName(informersName); err != nil {
		return err
	}
	c.InformerFactory = scheduler.NewInformerFactory(client, 0, o.InformerName)
	return nil
}
