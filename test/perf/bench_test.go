package perf

import (
	"regexp"
	"testing"

	"github.com/quartermaster-dra/quartermaster/pkg/plugins/quartermaster"
	"github.com/quartermaster-dra/quartermaster/test/perf/timing"
	"github.com/quartermaster-dra/quartermaster/test/perf/workload"

	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// subject is a plugin under measurement.
type subject struct {
	// label is its name in the table, name the one in the scheduler's configuration.
	label, name string
	factory     frameworkruntime.PluginFactory
}

var (
	inTreePlugin        = subject{label: "in-tree", name: timing.InTreeName, factory: timing.InTree}
	quartermasterPlugin = subject{label: "quartermaster", name: quartermaster.Name, factory: quartermaster.New}
)

// BenchmarkWorkloads runs each workload with each plugin. Rounds alternate which of
// them is first, so that what one leaves in the process does not always meet the
// same other.
func BenchmarkWorkloads(b *testing.B) {
	selected, err := regexp.Compile(*workloadsFlag)
	if err != nil {
		b.Fatalf("-workloads: %v", err)
	}
	cases, err := loadCases()
	if err != nil {
		b.Fatal(err)
	}
	listed, err := workload.ReadSelection(*selectionFlag, cases)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range cases {
		for _, w := range c.Workloads {
			name := workload.FullName(c, w)
			if *onlyShort && !w.Short || !selected.MatchString(name) || !listed(name) {
				continue
			}
			for round := range *roundsFlag {
				for _, plugin := range order(round) {
					b.Run(workload.FullName(c, w)+"/"+plugin.label, func(b *testing.B) { run(b, c, w, plugin) })
				}
			}
		}
	}
}

// loadCases returns our workloads and then upstream's.
func loadCases() ([]workload.Case, error) {
	cases, err := workload.Load("testdata")
	if err != nil {
		return nil, err
	}
	sources, err := kubernetesSources()
	if err != nil {
		return nil, err
	}
	upstream, err := workload.LoadUpstream(sources)
	return append(cases, upstream...), err
}

func order(round int) []subject {
	if round%2 == 0 {
		return []subject{inTreePlugin, quartermasterPlugin}
	}
	return []subject{quartermasterPlugin, inTreePlugin}
}
