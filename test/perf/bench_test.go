package perf

import (
	"context"
	"regexp"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/pkg/plugins/quartermaster"
	"github.com/quartermaster-dra/quartermaster/test/perf/timing"
	"github.com/quartermaster-dra/quartermaster/test/perf/workload"
)

// subject is a plugin under measurement.
type subject struct {
	// label is its name in the table, name the one in the scheduler's configuration.
	label, name string
	factory     frameworkruntime.PluginFactory
	// takenBy is the field manager that has allocated the devices which are taken beforehand.
	takenBy string
	// guarded is whether API servers ask a guard about allocations.
	guarded bool
	// alone is whether the scheduler has no other plugins than those that it cannot do without.
	alone bool
}

// another is the field manager of a scheduler that is not ours.
const another = "kube-scheduler"

var (
	inTreePlugin        = subject{label: "in-tree", name: timing.InTreeName, factory: timing.InTree, takenBy: another}
	quartermasterPlugin = subject{label: "quartermaster", name: quartermaster.Name, factory: quartermaster.New, takenBy: write.FieldManager}
	// besidePlugin is ours where another scheduler has taken the devices, as usual for a
	// second scheduler. It has a row of its own where devices are taken.
	besidePlugin = subject{label: "quartermaster-beside", name: quartermaster.Name, factory: quartermaster.New, takenBy: another}
	// unsettledPlugin and guardedPlugin are besidePlugin without settling: it is off, or there is a guard.
	// They are measured if there is -guard.
	unsettledPlugin = subject{label: "quartermaster-unsettled", name: quartermaster.Name, factory: unsettled, takenBy: another}
	guardedPlugin   = subject{label: "quartermaster-guarded", name: quartermaster.Name, factory: quartermaster.New, takenBy: another, guarded: true}
)

// unsettled makes our plugin, which does not settle beside other schedulers.
func unsettled(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return quartermaster.New(ctx, &runtime.Unknown{Raw: []byte("settleTime: 0s")}, handle)
}

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
				for _, plugin := range order(w, round) {
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

// order returns the subjects of a workload, in the order of a round.
func order(w workload.Workload, round int) []subject {
	subjects := []subject{inTreePlugin, quartermasterPlugin}
	if *limitFlag {
		subjects = append(subjects, limitPlugin)
	}
	if w.OccupiedClaims > 0 {
		subjects = append(subjects, besidePlugin)
		if *guardFlag != "" {
			subjects = append(subjects, unsettledPlugin, guardedPlugin)
		}
	}
	if round%2 == 1 {
		slices.Reverse(subjects)
	}
	return subjects
}
