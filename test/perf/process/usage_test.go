package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseCPUTime(t *testing.T) {
	for name, test := range map[string]struct {
		stat string
		want time.Duration
	}{
		"a plain name":             {"7 (scheduler) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 100\n", 3 * time.Second},
		"a name with parentheses":  {"7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 9 0 100\n", 30 * time.Millisecond},
		"children do not count in": {"7 (scheduler) S 1 7 7 0 -1 4194560 100 0 0 0 100 0 700 800 20 0 9 0 100\n", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseCPUTime([]byte(test.stat))
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
	_, err := parseCPUTime([]byte("7 (scheduler) S 1"))
	require.ErrorContains(t, err, "has not the fields")
}

func TestParseMachineTime(t *testing.T) {
	got, err := parseMachineTime([]byte("cpu  100 200 300 4000 500 60 70 80 90 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n"))
	require.NoError(t, err)
	require.Equal(t, machineTime{busy: 8100 * time.Millisecond, all: 53100 * time.Millisecond}, got, "guests are part of user's and nice")
	_, err = parseMachineTime([]byte("cpu0 1 2 3 4 5 6 7 8 9 10\n"))
	require.ErrorContains(t, err, "/proc/stat")
}

func TestParseHeap(t *testing.T) {
	got, err := parseHeap([]byte("heap profile: 1: 2 [3: 4] @ heap/1048576\n\n# runtime.MemStats\n# Alloc = 5\n# HeapAlloc = 123456\n# HeapSys = 7\n"))
	require.NoError(t, err)
	require.EqualValues(t, 123456, got)
	_, err = parseHeap([]byte("heap profile"))
	require.ErrorContains(t, err, "HeapAlloc")
}

func TestWithoutPlugins(t *testing.T) {
	config := map[string]any{"a": 1, "profiles": []any{map[string]any{"schedulerName": "s", "plugins": 2, "pluginConfig": 3}}}
	withoutPlugins(config)
	require.Equal(t, map[string]any{"a": 1, "profiles": []any{map[string]any{"schedulerName": "s"}}}, config)
}

func TestAsItComes(t *testing.T) {
	config := map[string]any{"clientConnection": 1, "profiles": []any{map[string]any{"schedulerName": "s", "plugins": 2}}}
	asItComes(config)
	require.Equal(t, map[string]any{"profiles": []any{map[string]any{"schedulerName": "s"}}}, config)
}
