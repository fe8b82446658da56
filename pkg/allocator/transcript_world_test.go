package allocator_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// defaultFeatures are those that are on by default in Kubernetes 1.37.
var defaultFeatures = structured.Features{
	AdminAccess: true, ConsumableCapacity: true, DeviceBindingAndStatus: true, DeviceTaints: true,
	FractionalCapacityRange: true, PartitionableDevices: true, PrioritizedList: true,
}

// world is what the commands of a transcript change and look at: the objects of a
// cluster, and what claims hold.
type world struct {
	ctx      context.Context
	features structured.Features
	budget   int
	node     *v1.Node

	slices    map[string]*resourceapi.ResourceSlice
	rules     map[string]*resourceapi.DeviceTaintRule
	classes   classes
	templates map[string]*resourceapi.ResourceClaimTemplate
	claims    map[string]*resourceapi.ResourceClaim

	usage   *ledger.Ledger
	held    map[string]*resourceapi.AllocationResult // by claim
	version int                                      // resourceVersion of the last change of a claim
	shares  int                                      // IDs of shares given out
	last    attempt
	// upstreamIsSlow is true if upstream is not asked whether something is impossible.
	upstreamIsSlow bool
	// upstreamDiffers is true if upstream's next answer must differ.
	upstreamDiffers bool
}

// attempt is what the last allocate was about.
type attempt struct {
	claims  []*resourceapi.ResourceClaim
	outcome *allocator.Outcome // nil if there was none, or an error
}

func newWorld(ctx context.Context) *world {
	return &world{
		ctx: ctx, features: defaultFeatures,
		slices: make(map[string]*resourceapi.ResourceSlice), rules: make(map[string]*resourceapi.DeviceTaintRule),
		classes: make(classes), templates: make(map[string]*resourceapi.ResourceClaimTemplate),
		claims: make(map[string]*resourceapi.ResourceClaim),
		usage:  ledger.New(), held: make(map[string]*resourceapi.AllocationResult),
	}
}

// transcriptCommands are all there are. README.md in testdata/transcripts describes them.
var transcriptCommands = map[string]func(w *world, arguments, input []string) (string, error){
	"allocate":     (*world).commandAllocate,
	"apply":        (*world).commandApply,
	"budget":       (*world).commandBudget,
	"create":       (*world).commandCreate,
	"delete":       (*world).commandDelete,
	"explain":      (*world).commandExplain,
	"features":     (*world).commandFeatures,
	"free":         (*world).commandFree,
	"hold":         (*world).commandHold,
	"node":         (*world).commandNode,
	"place":        (*world).commandPlace,
	"slices":       (*world).commandSlices,
	"upstream":     (*world).commandUpstream,
	"what-if-gone": (*world).commandWhatIfGone,
}

// execute runs one command. Errors are about the transcript itself; the allocator's answers, including its
// errors, are output.
func (w *world) execute(command string, input []string) (string, error) {
	words := strings.Fields(command)
	run := transcriptCommands[words[0]]
	if run == nil {
		known := slices.Sorted(maps.Keys(transcriptCommands))
		return "", fmt.Errorf("unknown command; there are %s", strings.Join(known, ", "))
	}
	if len(input) > 0 && words[0] != "apply" {
		return "", fmt.Errorf("only apply takes input, this has %d lines", len(input))
	}
	output, err := run(w, words[1:], input)
	if err != nil {
		return "", err
	}
	if output == "" || strings.Contains(output, "\n\n") || strings.HasSuffix(output, "\n") {
		return "", fmt.Errorf("output must be something, and no line of it empty: %q", output)
	}
	return output, nil
}

func (w *world) commandNode(arguments, _ []string) (string, error) {
	if len(arguments) == 0 {
		return "", fmt.Errorf("want a name and perhaps labels")
	}
	var labels []string
	for _, label := range arguments[1:] {
		key, value, found := strings.Cut(label, "=")
		if !found {
			return "", fmt.Errorf("label %q is not key=value", label)
		}
		labels = append(labels, key, value)
	}
	w.node = b.Node(arguments[0], labels...)
	return w.describePools(), nil
}

// describePools lists what the node sees, in the order in which it is tried.
func (w *world) describePools() string {
	var lines []string
	for _, pool := range w.store().OnNode(w.node) {
		line := fmt.Sprintf("%s: ", pool.ID)
		switch pool.State {
		case inventory.Complete:
			line += plural(pool.Reachable.Len(), "device")
		case inventory.Incomplete:
			line += "incomplete"
		case inventory.Invalid:
			line += "invalid, " + pool.Reason
		}
		lines = append(lines, line)
	}
	return cmp.Or(strings.Join(lines, "\n"), "no pools")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (w *world) store() *inventory.Store {
	published := slices.Collect(maps.Values(w.slices))
	store := inventory.FromSlices(published, allocator.InventoryOptions(w.features))
	for _, rule := range w.rules {
		store.RefreshTaintRule(rule.Name, func() *resourceapi.DeviceTaintRule { return rule })
	}
	return store
}

func (w *world) solver() *allocator.Solver {
	return &allocator.Solver{
		Features: w.features, Classes: w.classes, Evaluator: selector.NewEvaluator(w.celCache()), StepBudget: w.budget,
		NewShareID: func() types.UID {
			w.shares++
			return types.UID(fmt.Sprintf("share-%d", w.shares))
		},
	}
}

func (w *world) celCache() *cel.Cache {
	return cel.NewCache(100, cel.Features{EnableListTypeAttributes: w.features.ListTypeAttributes})
}
