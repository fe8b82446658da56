package playground

import (
	_ "embed"
	"io"
	"text/template"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

//go:embed instructions.txt
var instructionsText string

var instructions = template.Must(template.New("instructions").Parse(instructionsText))

// writeInstructions prints instructions for the cluster of Up. bin is the folder of kubectl and its plugin, and metrics
// the command that prints the scheduler's metrics.
func writeInstructions(out io.Writer, bin, kubeconfig, metrics string, hardware UpFleet) error {
	return instructions.Execute(out, map[string]any{
		"Bin":           bin,
		"Kubeconfig":    kubeconfig,
		"Metrics":       metrics,
		"SchedulerName": builder.SchedulerName,
		"Class":         fleet.GPUDriver,
		"Driver":        fleet.GPUDriver,
		"Node":          scenario.NodeName(upNodePool, 0),
		"TooMany":       hardware.DevicesPerNode + 1,
		"PerNode":       hardware.DevicesPerNode,
	})
}
