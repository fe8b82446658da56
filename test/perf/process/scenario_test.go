package main

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChoose(t *testing.T) {
	all := []scenario{{name: "a"}, {name: "b"}, {name: "c"}}
	chosen, err := choose(all, "c,a")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "c"}, names(chosen), "in their own order")
	require.Equal(t, []string{"a", "b", "c"}, names(all))
	_, err = choose(all, "a,d")
	require.ErrorContains(t, err, `"d"`)
	require.ErrorContains(t, err, "a,b,c")
}

func TestWriteTables(t *testing.T) {
	var text strings.Builder
	chosen := []scenario{
		{name: "a", title: "Of a", columns: []column{{title: "x", format: "%.0f"}}},
		{name: "b", title: "Of b", columns: []column{{title: "y", format: "%.0f"}}},
	}
	require.NoError(t, writeTables(&text, chosen, map[string][]row{"b": {{label: "ours", values: []float64{1}}}}))
	require.Equal(t, "\nOf b:\n\n| scheduler | y |\n|---|---:|\n| ours | 1 |\n", text.String(), "nobody has gone through a")
}

// TestScenarios checks what a table needs: a row is written by the columns of its scenario.
func TestScenarios(t *testing.T) {
	known := make(map[string]bool)
	for _, s := range scenarios {
		require.False(t, known[s.name], "scenario %s is there twice", s.name)
		known[s.name] = true
		require.NotEmpty(t, s.title)
		require.NotEmpty(t, s.columns)
		require.NotNil(t, (func(context.Context, *session) ([]float64, error))(s.measure))
	}
	for _, s := range subjects {
		if s.only != "" {
			require.True(t, known[s.only], "%s is only for a scenario that does not exist", s.label)
		}
	}
}
