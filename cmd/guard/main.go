// The guard is a webhook that API servers call before they store an allocation of devices by any scheduler: it
// prevents that a device is allocated twice. See docs/guard.md.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // for --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func main() { os.Exit(cli.Run(newCommand())) }
