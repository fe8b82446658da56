package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// publish writes what benchmarks left in a folder to data files. What was not measured keeps its file.
func publish(folder, results, conditions string) error {
	if conditions == "" {
		return errors.New("-publish needs -conditions: say which commit was measured on what machine")
	}
	for _, source := range []struct {
		file string
		read func(text []byte) (map[string]data, error)
	}{
		{"allocator.txt", readAllocator},
		{"selectors.txt", readBenchmarks("selectors.tsv")},
		{"state.txt", readBenchmarks("state.tsv")},
		{"table.md", readPlugins},
		{filepath.Join("process", "table.md"), readProcess},
	} {
		text, err := os.ReadFile(filepath.Join(folder, source.file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read results: %w", err)
		}
		files, err := source.read(text)
		if err != nil {
			return fmt.Errorf("read %s: %w", source.file, err)
		}
		for name, d := range files {
			d.conditions = conditions
			if err := d.write(filepath.Join(results, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// readAllocator reads the benchmarks that compare allocators.
func readAllocator(text []byte) (map[string]data, error) {
	t, err := readTables(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	d := data{header: []string{"case", "allocator", "µs", "allocations"}}
	for _, name := range t.order {
		table := t.byName[name]
		for _, of := range table.order {
			for _, implementation := range []string{upstream, ours} {
				seconds, measured := table.times.median(of, implementation)
				if !measured {
					continue
				}
				label := implementation
				if label == ours {
					label = quartermaster
				}
				d.rows = append(d.rows, []string{name + ": " + strings.ReplaceAll(of, "_", " "), label,
					fmt.Sprintf("%.1f", seconds*1e6), strings.Trim(table.count(of, implementation), "–")})
			}
		}
	}
	return map[string]data{"allocator.tsv": d}, nil
}

// readBenchmarks reads benchmarks that compare nothing: a row for each, a column for each unit.
func readBenchmarks(file string) func([]byte) (map[string]data, error) {
	return func(text []byte) (map[string]data, error) {
		d := data{header: []string{"benchmark"}}
		reader := benchfmt.NewReader(bytes.NewReader(text), file)
		for reader.Scan() {
			result, is := reader.Result().(*benchfmt.Result)
			if !is {
				continue
			}
			row := make([]string, len(d.header))
			row[0] = result.Name.String()
			for _, value := range result.Values {
				number, unit := value.Value, value.Unit
				if unit == "sec/op" {
					number, unit = number*1e6, "µs/op"
				}
				at := slices.Index(d.header, unit)
				if at < 0 {
					at = len(d.header)
					d.header, row = append(d.header, unit), append(row, "")
				}
				row[at] = strconv.FormatFloat(number, 'g', 4, 64)
			}
			d.rows = append(d.rows, row)
		}
		for i, row := range d.rows {
			d.rows[i] = append(row, make([]string, len(d.header)-len(row))...)
		}
		return map[string]data{file: d}, reader.Err()
	}
}

// readPlugins reads the tables of hack/bench: one of pods, one of preemption, one of gangs.
func readPlugins(text []byte) (map[string]data, error) {
	return named(fromMarkdown(string(text)), map[string]string{"victims/needed": "preemption.tsv", "created to bound ms": "gangs.tsv"}, "plugins.tsv"), nil
}

// readProcess reads the tables of test/perf/process, one for each scenario.
func readProcess(text []byte) (map[string]data, error) {
	byColumn := map[string]string{"first pod s": "restart", "republished in s": "republish", "changes of nodes/s": "flap"}
	files := make(map[string]data)
	for scenario, d := range named(fromMarkdown(string(text)), byColumn, "pods") {
		d.header = append([]string{"scenario"}, d.header...)
		for i, row := range d.rows {
			d.rows[i] = append([]string{scenario}, row...)
		}
		files["process-"+scenario+".tsv"] = d
	}
	return files, nil
}

// named gives each table a name by a column that only it has.
func named(tables []data, byColumn map[string]string, other string) map[string]data {
	files := make(map[string]data)
	for _, d := range tables {
		name := other
		for column, of := range byColumn {
			if slices.Contains(d.header, column) {
				name = of
			}
		}
		files[name] = d
	}
	return files
}

// readTables reads the output of "go test -bench".
func readTables(in io.Reader) (tables, error) {
	var t tables
	reader := benchfmt.NewReader(in, "standard input")
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.Result:
			if err := t.add(record); err != nil {
				return t, err
			}
		case *benchfmt.SyntaxError:
			return t, record
		}
	}
	if err := reader.Err(); err != nil {
		return t, fmt.Errorf("read benchmarks: %w", err)
	}
	if len(t.order) == 0 {
		return t, errors.New("no benchmark with table=, case= and impl= in its name; give the output of `go test -bench`")
	}
	return t, nil
}
