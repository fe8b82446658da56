package selector_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// models is a language in which an expression after "model:" is the model of the devices
// that match.
type models struct{}

func (models) Compile(expression string) (selector.Program, bool, error) {
	wanted, is := strings.CutPrefix(expression, "model:")
	if is && wanted == "" {
		return nil, true, errors.New("name a model")
	}
	return func(_ context.Context, device cel.Device) (bool, error) {
		model, found := device.Attributes["model"]
		if !found {
			return false, errors.New("has no model")
		}
		return *model.StringValue == wanted, nil
	}, is, nil
}

func TestLanguages(t *testing.T) {
	t.Parallel()
	pool := poolOn(t, b.NodeSlice("a", b.Device("a100-0").Attr("model", "a100"), b.Device("t4-0").Attr("model", "t4"), b.Device("plain")))
	evaluator := selector.NewEvaluator(cel.NewCache(10, cel.Features{}), models{})
	for name, tc := range map[string]struct {
		expressions     []string
		matches, failed []string
		says            error
	}{
		"the other language":      {[]string{"model:t4"}, []string{"t4-0"}, []string{"plain"}, selector.ErrRuntime},
		"both":                    {[]string{hasModel, "model:a100"}, []string{"a100-0"}, nil, nil},
		"does not compile":        {[]string{"model:"}, nil, []string{"a100-0", "t4-0", "plain"}, selector.ErrCompile},
		"v1 is what it always is": {[]string{isA100}, []string{"a100-0"}, []string{"plain"}, selector.ErrRuntime},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := setOf(b.Class("gpus"), tc.expressions...)
			selection, err := evaluator.Select(t.Context(), pool, set)
			require.NoError(t, err)
			require.Equal(t, tc.matches, names(pool, slices.Collect(selection.Matches.All())))
			failed := slices.Collect(selection.Failed.All())
			require.Equal(t, tc.failed, names(pool, failed))
			for _, device := range failed {
				require.ErrorIs(t, set.Error(pool, selection, device), tc.says)
			}
		})
	}
}
