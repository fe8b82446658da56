package report

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMedianTakesEachValueByItself(t *testing.T) {
	got := Median([]Result{
		{Workload: "w", Plugin: "p", Count: 1, Throughput: 30, CycleTime: 2 * time.Second},
		{Workload: "w", Plugin: "p", Count: 2, Throughput: 10, CycleTime: 3 * time.Second},
		{Workload: "w", Plugin: "p", Count: 3, Throughput: 20, CycleTime: time.Second},
	})
	require.Equal(t, Result{Workload: "w", Plugin: "p", Count: 2, Throughput: 20, CycleTime: 2 * time.Second}, got)
}

func TestMedianOfAnEvenNumberIsTheLowerOne(t *testing.T) {
	require.EqualValues(t, 5, Median([]Result{{Nodes: 9}, {Nodes: 5}}).Nodes)
}

func TestWrite(t *testing.T) {
	ours := Result{
		Workload: "Case/a", Plugin: "ours", Count: 100, Attempts: 100, Nodes: 1000, Throughput: 60, Elapsed: 2 * time.Second,
		PluginTime: 10 * time.Millisecond, CycleTime: 50 * time.Millisecond, AttemptP50: 10 * time.Millisecond,
		PluginCPU: time.Second / 10, SchedulerCPU: time.Second, ProcessCPU: 4 * time.Second, Heap: 100 << 20,
	}
	// Per pod, not in total: with twice as many pods it does twice the work.
	theirs := Result{
		Workload: "Case/a", Plugin: "theirs", Count: 200, Attempts: 400, Nodes: 2000, Throughput: 30, Elapsed: 4 * time.Second,
		PluginTime: 400 * time.Millisecond, CycleTime: 400 * time.Millisecond, AttemptP50: 40 * time.Millisecond,
		PluginCPU: 2 * time.Second, SchedulerCPU: 4 * time.Second, ProcessCPU: 8 * time.Second, Heap: 50 << 20,
	}
	beside := Result{Workload: "Case/a", Plugin: "beside", Count: 10, Throughput: 15}
	alone := Result{Workload: "Case/b", Plugin: "theirs", Count: 1, Throughput: 5}
	var text strings.Builder
	require.NoError(t, Write(&text, []Result{ours, theirs, alone, beside}, "theirs", "ours", "beside"))

	var got [][]string
	lines := strings.Split(text.String(), "\n")
	for _, line := range lines[2:8] {
		var cells []string
		for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		got = append(got, cells)
	}
	require.Equal(t, [][]string{
		{"Case/a", "theirs", "30.0", "50.0", "2000.0", "10.0", "200.00", "2.000", "2.00", "40.0", "–", "10.000", "20.00", "40.00", "50"},
		{"Case/a", "ours", "60.0", "50.0", "100.0", "10.0", "10.00", "0.500", "1.00", "10.0", "–", "1.000", "10.00", "40.00", "100"},
		{"Case/a", "ratio", "2", "1", "0.05", "1", "0.05", "0.25", "0.5", "0.25", "–", "0.1", "0.5", "1", "▼ 2"},
		{"Case/a", "beside", "15.0", "–", "–", "–", "–", "–", "–", "–", "–", "–", "–", "–", "–"},
		{"Case/a", "ratio", "▼ 0.5", "–", "–", "–", "–", "–", "–", "–", "–", "–", "–", "–", "–"},
		{"Case/b", "theirs", "5.0", "–", "–", "–", "–", "–", "–", "–", "–", "–", "–", "–", "–"},
	}, got)
	for _, line := range lines[1:8] {
		require.Len(t, []rune(line), len([]rune(lines[0])), "columns are aligned")
	}
	require.Contains(t, text.String(), "\n▼: behind theirs by more than 5 %:\n\n- Case/a, ours: heap growth MiB 2\n- Case/a, beside: per second 0.5\n")
}

// Two runs of the same code differ by a few percent, and how many nodes were looked at
// is not good or bad by itself.
func TestOnlyWhatIsWorseIsMarked(t *testing.T) {
	theirs := Result{Workload: "w", Plugin: "theirs", Count: 100, Nodes: 100, Attempts: 100, Throughput: 100, PluginTime: time.Second, CycleTime: time.Second}
	ours := Result{Workload: "w", Plugin: "ours", Count: 100, Nodes: 900, Attempts: 900, Throughput: 96, PluginTime: time.Second, CycleTime: 1040 * time.Millisecond}
	var text strings.Builder
	require.NoError(t, Write(&text, []Result{theirs, ours}, "theirs", "ours"))
	require.NotContains(t, text.String(), "▼")

	ours.Throughput, ours.CycleTime = 94, 1060*time.Millisecond
	text.Reset()
	require.NoError(t, Write(&text, []Result{theirs, ours}, "theirs", "ours"))
	require.Contains(t, text.String(), "- w, ours: per second 0.94, cycle ms/pod 1.06\n")
}

func TestPreemptionHasATableOfItsOwn(t *testing.T) {
	theirs := Result{Workload: "Preemption/a", Plugin: "theirs", Count: 10, Elapsed: time.Second, Attempts: 20,
		DryRuns: 10, DryRunTime: 20 * time.Millisecond, Victims: 30, VictimsNeeded: 30}
	ours := Result{Workload: "Preemption/a", Plugin: "ours", Count: 10, Elapsed: 2 * time.Second, Attempts: 40,
		DryRuns: 20, DryRunTime: 60 * time.Millisecond, Victims: 33, VictimsNeeded: 30}
	plain := Result{Workload: "Case/a", Plugin: "ours", Count: 1}
	var text strings.Builder
	require.NoError(t, Write(&text, []Result{theirs, plain, ours}, "theirs", "ours"))

	first, second, found := strings.Cut(text.String(), "\n\n")
	require.True(t, found)
	require.Contains(t, first, "| Case/a ")
	require.NotContains(t, first, "Preemption/a")
	var got [][]string
	for _, line := range strings.Split(second, "\n")[:5] {
		var cells []string
		for _, cell := range strings.Split(strings.Trim(line, "|"), "|")[1:7] {
			cells = append(cells, strings.TrimSpace(cell))
		}
		got = append(got, cells)
	}
	require.Equal(t, []string{"plugin", "per second", "overall/s", "dry run ms", "dry runs/pod", "victims/needed"}, got[0])
	require.Equal(t, [][]string{
		{"theirs", "–", "10.0", "2.00", "1.00", "1.000"},
		{"ours", "–", "5.0", "3.00", "2.00", "1.100"},
		{"ratio", "–", "▼ 0.5", "▼ 1.5", "2", "▼ 1.1"},
	}, got[2:])
	require.Contains(t, second, "- Preemption/a, ours: overall/s 0.5, dry run ms 1.5, victims/needed 1.1\n")
}

func TestCheckVictims(t *testing.T) {
	require.NoError(t, Result{}.CheckVictims(true), "a workload without preemption")
	require.NoError(t, Result{Victims: 30, VictimsNeeded: 30}.CheckVictims(true))
	require.ErrorContains(t, Result{Victims: 31, VictimsNeeded: 30}.CheckVictims(true), "31 pods were evicted where 30 are needed")
	require.NoError(t, Result{Victims: 31, VictimsNeeded: 30}.CheckVictims(false))
	require.ErrorContains(t, Result{Victims: 29, VictimsNeeded: 30}.CheckVictims(false), "were the nodes full?")
}

func TestGangsHaveATableOfTheirOwn(t *testing.T) {
	theirs := Result{Workload: "Gang/a/8", Plugin: "theirs", Count: 8, Elapsed: time.Second, Attempts: 8,
		Gang: Gang{Pods: 8, FromReady: 800 * time.Millisecond, Decided: 400 * time.Millisecond}}
	ours := theirs
	ours.Plugin, ours.Gang.Decided = "ours", 10*time.Millisecond
	givenUp := Result{Workload: "Gang/b/8", Plugin: "theirs", Attempts: 24, Gang: Gang{Pods: 8}}
	placed := ours
	placed.Workload = "Gang/b/8"
	var text strings.Builder
	require.NoError(t, Write(&text, []Result{theirs, ours, givenUp, placed}, "theirs", "ours"))
	var got [][]string
	for _, line := range strings.Split(text.String(), "\n")[2:8] {
		var cells []string
		for _, cell := range strings.Split(strings.Trim(line, "|"), "|")[:7] {
			cells = append(cells, strings.TrimSpace(cell))
		}
		got = append(got, cells)
	}
	require.Equal(t, [][]string{
		{"Gang/a/8", "theirs", "8", "8", "1000", "800", "400.0"},
		{"Gang/a/8", "ours", "8", "8", "1000", "800", "10.0"},
		{"Gang/a/8", "ratio", "1", "1", "1", "1", "0.025"},
		{"Gang/b/8", "theirs", "8", "–", "–", "–", "–"},
		{"Gang/b/8", "ours", "8", "8", "1000", "800", "10.0"},
		{"Gang/b/8", "ratio", "1", "–", "–", "–", "–"},
	}, got)
}

func TestPartsOfTheLimit(t *testing.T) {
	run := func(workload, plugin string, seconds int) Result {
		return Result{Workload: workload, Plugin: plugin, Count: 100, Elapsed: time.Duration(seconds) * time.Second}
	}
	results := []Result{
		run("Case/a", "limit", 1), run("Case/a", "theirs", 4), run("Case/a", "ours", 2),
		run("Case/b", "limit", 2), run("Case/b", "limit", 2), run("Case/b", "ours", 4), run("Case/b", "ours", 2),
		run("Case/c", "ours", 1),
	}
	var text strings.Builder
	require.NoError(t, WriteParts(&text, results, "limit", "theirs", "ours"))
	var got [][]string
	for _, line := range strings.Split(strings.Trim(text.String(), "\n"), "\n") {
		got = append(got, strings.Fields(strings.ReplaceAll(line, "|", "")))
	}
	require.Equal(t, [][]string{
		{"workload", "limit", "pods/s", "theirs", "ours"},
		got[1],
		{"Case/a", "100.0", "0.25", "0.50"},
		{"Case/b", "50.0", "(50.0–50.0)", "–", "1.00", "(0.50–1.00)"},
	}, got)
	text.Reset()
	require.NoError(t, WriteParts(&text, results[7:], "limit", "theirs", "ours"))
	require.Empty(t, text.String())
}
