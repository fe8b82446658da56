package allocator_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// The fuzzer starts from a corpus with an input for each behaviour that has a name
// below, so that it need not find them itself. Each file has the behaviour's name.
const corpus = "testdata/fuzz/FuzzSameAsUpstream"

var updateCorpus = flag.Bool("update-corpus", false, "write new inputs of the fuzzer for behaviours that have none")

// observed is a scenario together with its outcome.
type observed struct {
	*inspection
	err error
}

// behaviours are the behaviours that the corpus covers.
var behaviours = map[string]func(observed) bool{
	"impossible":                 func(o observed) bool { return o.results == nil && o.err == nil },
	"invalid-pool":               func(o observed) bool { return errorClass(o.err) == "only this node" },
	"class-missing":              fails("does not exist"),
	"all-but-pool-incomplete":    fails("is incomplete"),
	"all-but-pool-invalid":       fails("a resource pool of driver", "is invalid"),
	"all-but-constraint":         fails("does not satisfy a constraint"),
	"selector-does-not-compile":  func(o observed) bool { return errors.Is(o.err, selector.ErrCompile) && !fails("derived")(o) },
	"selector-fails":             func(o observed) bool { return errors.Is(o.err, selector.ErrRuntime) && !fails("derived")(o) },
	"derived-attribute-fails":    fails("derived attribute"),
	"capacity-negative":          fails("capacity", "negative"),
	"too-many-devices":           fails("at most 32"),
	"node-selector-of-two-terms": fails("terms but the API allows only one"),
	"alternatives-off":           fails("DRAPrioritizedList is off"),
	"admin-access-off":           fails("DRAAdminAccess is off"),
	"capacity-off":               fails("DRAConsumableCapacity is off"),
	"derived-attributes-off":     fails("DRADerivedAttributes is off"),
	"second-alternative":         gives(func(g granted) bool { return strings.HasSuffix(g.result.Request, "/s1") }),
	"32-devices":                 func(o observed) bool { return len(o.results) > 0 && len(o.results[0].Devices.Results) == 32 },
	"tolerated-taint":            gives(func(g granted) bool { return untolerated(g.device, nil) }),
	"binding-condition":          gives(func(g granted) bool { return len(g.result.BindingConditions) > 0 }),
	"skipped-operations":         gives(func(g granted) bool { return len(g.result.SkipNodeOperations) > 0 }),
	"all-devices":                gives(isForAll),
	"all-with-counters":          gives(func(g granted) bool { return isForAll(g) && len(g.ConsumesCounters) > 0 }),
	"all-with-shares":            gives(func(g granted) bool { return isForAll(g) && g.result.ShareID != nil }),
	"share":                      gives(func(g granted) bool { return g.result.ShareID != nil }),
	"fraction":                   gives(func(g granted) bool { q := g.result.ConsumedCapacity["bandwidth"]; return q.MilliValue()%1000 != 0 }),
	"amount-rounded-up":          gives(roundedUp),
	"share-with-counters":        gives(func(g granted) bool { return g.result.ShareID != nil && len(g.ConsumesCounters) > 0 }),
	"compatibility-groups": gives(func(g granted) bool {
		return len(g.ConsumesCounters) > 0 && g.ConsumesCounters[0].CompatibilityGroups != nil
	}),
	"derived-attribute": gives(func(g granted) bool { return len(g.wish.DerivedAttributes) > 0 }),
	"admin-access-to-used-device": func(o observed) bool {
		return o.gives(func(g granted) bool { return g.wish.admin && o.inUse(g.device) })
	},
	"share-of-used-device": func(o observed) bool {
		return o.gives(func(g granted) bool { return g.result.ShareID != nil && o.hasShares(g.device) })
	},
	"two-shares-of-a-device": func(o observed) bool {
		for n := range o.granted {
			if o.isFurtherShare(n) && !o.hasShares(o.granted[n].device) {
				return true
			}
		}
		return false
	},
	"constraint": func(o observed) bool {
		return o.gives(func(g granted) bool { return len(o.claims[g.claim].Spec.Devices.Constraints) > 0 })
	},
	"shares-although-off": func(o observed) bool {
		return !o.features.ConsumableCapacity && o.state.AllocatedSharedDeviceIDs.Len() > 0
	},
	"node-selector-by-label": func(o observed) bool {
		return len(o.results) > 0 && o.results[0].NodeSelector != nil && len(o.results[0].NodeSelector.NodeSelectorTerms[0].MatchExpressions) > 0
	},
	"two-claims-of-one-pool": func(o observed) bool {
		return o.gives(func(g granted) bool { return g.claim == 1 && g.pool() == o.granted[0].pool() })
	},
}

// fails is the behaviour of returning an error that contains all the texts.
func fails(texts ...string) func(observed) bool {
	return func(o observed) bool {
		for _, text := range texts {
			if o.err == nil || !strings.Contains(o.err.Error(), text) {
				return false
			}
		}
		return true
	}
}

// gives is the behaviour of granting a device with a property.
func gives(such func(granted) bool) func(observed) bool {
	return func(o observed) bool { return o.gives(such) }
}

func (o observed) gives(such func(granted) bool) bool {
	for _, g := range o.granted {
		if such(g) {
			return true
		}
	}
	return false
}

func isForAll(g granted) bool { return g.wish.AllocationMode == resourceapi.DeviceAllocationModeAll }

func roundedUp(g granted) bool {
	if g.wish.Capacity == nil {
		return false
	}
	asked, taken := g.wish.Capacity.Requests["bandwidth"], g.result.ConsumedCapacity["bandwidth"]
	return taken.Cmp(asked) > 0
}

func observe(t *testing.T, s scenario) observed {
	results, err := s.run(t.Context(), allocator.New, newCache())
	o := observed{&inspection{scenario: s, t: t, celCache: newCache(), results: results}, err}
	for claim := range results {
		o.identify(claim)
	}
	return o
}

// TestCorpus checks that the corpus has an input for each behaviour, and that the input still shows it. After
// a change of the generator it may not; then remove the file and run this test with -update-corpus.
func TestCorpus(t *testing.T) {
	for name, reached := range behaviours {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(corpus, name)
			if _, err := os.Stat(path); os.IsNotExist(err) && *updateCorpus {
				writeInput(t, path, reached)
			}
			seed, decisions := readInput(t, path)
			require.True(t, reached(observe(t, newGenerator(seed, decisions).scenario())), "%s", path)
		})
	}
}

// writeInput looks for the shortest input among some that reach a behaviour.
func writeInput(t *testing.T, path string, reached func(observed) bool) {
	var best []byte
	found := 0
	for seed := int64(0); seed < 200_000 && found < 5; seed++ {
		g := newGenerator(seed, nil)
		if s := g.scenario(); (best == nil || len(g.made) < len(best)) && reached(observe(t, s)) {
			best = g.made
			found++
		}
	}
	require.NotNil(t, best, "no scenario reaches this")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "go test fuzz v1\nint64(0)\n[]byte(%q)\n", best), 0o644))
}

// readInput reads an input in the format of Go's fuzzer.
func readInput(t *testing.T, path string) (int64, []byte) {
	text, err := os.ReadFile(path)
	require.NoError(t, err, "there is no input for this behaviour; write one with -update-corpus")
	lines := strings.Split(string(text), "\n")
	require.GreaterOrEqual(t, len(lines), 3, path)
	seed, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(lines[1], "int64("), ")"), 10, 64)
	require.NoError(t, err, path)
	decisions, err := strconv.Unquote(strings.TrimSuffix(strings.TrimPrefix(lines[2], "[]byte("), ")"))
	require.NoError(t, err, path)
	return seed, []byte(decisions)
}
