// The scheduler is kube-scheduler with the plugins Quartermaster and QuartermasterGangs compiled in. All flags, the
// configuration file, metrics, health endpoints and leader election are kube-scheduler's own. Unlike kube-scheduler
// it also works with API servers that serve only older versions of resource.k8s.io (package api).
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // for --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client and workqueue metrics
	_ "k8s.io/component-base/metrics/prometheus/version"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/wiring"
)

func main() {
	write.Install()
	os.Exit(cli.Run(newCommand(wiring.Plugins()...)))
}
