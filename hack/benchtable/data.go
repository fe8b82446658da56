package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// data is a file of test/perf/results: what was measured, and under which conditions. The first cell of a row is the
// case, the second the implementation. A value that was not measured is empty.
type data struct {
	conditions string
	header     []string
	rows       [][]string
}

func readData(path string) (data, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return data{}, fmt.Errorf("read figures: %w", err)
	}
	var d data
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		cells := strings.Split(line, "\t")
		switch {
		case strings.HasPrefix(line, "# "):
			d.conditions = strings.TrimPrefix(line, "# ")
		case d.header == nil:
			d.header = cells
		case len(cells) != len(d.header):
			return data{}, fmt.Errorf("%s: a row has %d cells and the header %d: %q", path, len(cells), len(d.header), line)
		default:
			d.rows = append(d.rows, cells)
		}
	}
	return d, nil
}

func (d data) write(path string) error {
	lines := []string{"# " + d.conditions, strings.Join(d.header, "\t")}
	for _, row := range d.rows {
		lines = append(lines, strings.Join(row, "\t"))
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	return nil
}

// value returns a cell, "" if there is none.
func (d data) value(name, implementation, column string) string {
	at := slices.Index(d.header, column)
	for _, row := range d.rows {
		if row[0] == name && row[1] == implementation && at >= 0 {
			return row[at]
		}
	}
	return ""
}

var (
	separator = regexp.MustCompile(`^\|[-:| ]+\|$`)
	// ratioOf is the ratio that a table has beside a value.
	ratioOf = regexp.MustCompile(` \([0-9.e+-]+\)$`)
)

// fromMarkdown reads the tables that the benchmarks print. Ratios are left out, because tables are made from the values again.
func fromMarkdown(text string) (all []data) {
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			inside = false
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i, cell := range cells {
			cells[i] = ratioOf.ReplaceAllString(strings.TrimPrefix(strings.TrimSpace(cell), "▼ "), "")
			if cells[i] == "–" {
				cells[i] = ""
			}
		}
		switch {
		case separator.MatchString(line):
		case !inside:
			all = append(all, data{header: cells})
			inside = true
		case cells[1] != "ratio":
			last := &all[len(all)-1]
			last.rows = append(last.rows, cells)
		}
	}
	return all
}
