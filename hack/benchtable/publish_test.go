package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const pluginTables = `
| workload | plugin        | per second | heap growth MiB |
|----------|---------------|-----------:|----------------:|
| burst    | in-tree       |       27.1 |              91 |
| burst    | quartermaster |       30.2 |               – |
| burst    | ratio         |    ▼ 1.114 |               – |

| workload | plugin  | pods | created to bound ms |
|----------|---------|-----:|--------------------:|
| Gang/8   | in-tree |    8 |                91.5 |

▼: behind in-tree by more than 5 %:
`

const processTables = `
A pod waits:

| scheduler | first pod s |
|---|---:|
| in-tree | 1.40 |
| quartermaster | 1.48 (1.06) |
`

// TestPublish: what benchmarks print becomes data files, and a table compares the values in them. What was not measured keeps its file.
func TestPublish(t *testing.T) {
	folder, results := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, "process"), 0o755))
	for name, text := range map[string]string{
		"allocator.txt": output, "table.md": pluginTables, "process/table.md": processTables,
		"state.txt": "BenchmarkOnePool/slices=100-2 10 4500 ns/op 3 allocs/op\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(results, "selectors.tsv"), []byte("kept"), 0o644))
	require.NoError(t, publish(folder, results, "Commit abc"))

	files := make(map[string]string)
	entries, err := os.ReadDir(results)
	require.NoError(t, err)
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(results, entry.Name()))
		require.NoError(t, err)
		files[entry.Name()] = string(text)
	}
	require.Equal(t, map[string]string{
		"allocator.tsv": "# Commit abc\ncase\tallocator\tµs\tallocations\n" +
			"warm: 1 of 8\tupstream\t12.0\t90\nwarm: 1 of 8\tquartermaster\t1.0\t6\nwarm: too long\tquartermaster\t5.5\t8\n" +
			"cold: 5 nodes\tupstream\t0.5\t4\ncold: 5 nodes\tquartermaster\t1.0\t6\n",
		"plugins.tsv":         "# Commit abc\nworkload\tplugin\tper second\theap growth MiB\nburst\tin-tree\t27.1\t91\nburst\tquartermaster\t30.2\t\n",
		"gangs.tsv":           "# Commit abc\nworkload\tplugin\tpods\tcreated to bound ms\nGang/8\tin-tree\t8\t91.5\n",
		"process-restart.tsv": "# Commit abc\nscenario\tscheduler\tfirst pod s\nrestart\tin-tree\t1.40\nrestart\tquartermaster\t1.48\n",
		"state.tsv":           "# Commit abc\nbenchmark\tµs/op\tallocs/op\nOnePool/slices=100-2\t4.5\t3\n",
		"selectors.tsv":       "kept",
	}, files)

	document, err := fill(`Text.

<!-- table: plugins.tsv; rows: bu.*; columns: per second, heap growth MiB -->
old
<!-- end -->
`, results)
	require.NoError(t, err)
	require.Equal(t, `Text.

<!-- table: plugins.tsv; rows: bu.*; columns: per second, heap growth MiB -->
| workload | per second | heap growth MiB |
|---|--:|--:|
| burst | 27.1/30.2 (1.11) | 91/– |

Commit abc.
<!-- end -->
`, document)
}

func TestFaultsOfTables(t *testing.T) {
	require.ErrorContains(t, publish(t.TempDir(), t.TempDir(), ""), "needs -conditions")
	results := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(results, "a.tsv"), []byte("# C\ncase\timpl\tx\na\tin-tree\t1\na\tquartermaster\t2\n"), 0o644))
	for marker, fault := range map[string]string{
		"a.tsv; rows: a; columns: y": `no column "y"`,
		"a.tsv; rows: b; columns: x": `no case matches "b"`,
		"a.tsv; rows: (; columns: x": "rows: ",
		"b.tsv; rows: a; columns: x": "read figures",
	} {
		_, err := fill("<!-- table: "+marker+" -->\n<!-- end -->", results)
		require.ErrorContains(t, err, fault, marker)
	}
}

func TestRounded(t *testing.T) {
	for value, text := range map[float64]string{1: "1", 0.0868: "0.087", 0.0000169: "0.000017", 2.756: "2.76", 59179: "59200"} {
		require.Equal(t, text, rounded(value))
	}
}

// TestTablesOfTheDocument: performance.md shows what the data files have; run "make bench-tables" after a change of either.
func TestTablesOfTheDocument(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "design", "performance.md"))
	require.NoError(t, err)
	require.Greater(t, len(marked.FindAllString(string(text), -1)), 3)
	filled, err := fill(string(text), filepath.Join(root, "test", "perf", "results"))
	require.NoError(t, err)
	require.Equal(t, filled, string(text), "run \"make bench-tables\"")
}
