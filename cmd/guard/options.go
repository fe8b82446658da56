package main

import (
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/quartermaster-dra/quartermaster/internal/guard/server"
)

// options holds the flags.
type options struct {
	kubeconfig string
	guard      *server.Options
	logs       *logs.Options
}

func newOptions() *options {
	return &options{guard: server.New(server.PodNamespace(), ""), logs: logs.NewOptions()}
}

// flags returns the flags by section.
func (o *options) flags() cliflag.NamedFlagSets {
	sets := o.guard.Flags()
	sets.FlagSet("guard").StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig, "File that says where the API server is. Without it, the guard uses the account of its pod.")
	logsapi.AddFlags(o.logs, sets.FlagSet("logs"))
	return sets
}
