package main

import (
	"context"
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
