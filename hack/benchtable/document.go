package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// marked is a table in a document, between two comments. The first names the data file, the rows by a regular expression for their
// case, and the columns.
var marked = regexp.MustCompile(`(?s)(<!-- table: (\S+); rows: (.*?); columns: (.*?) -->\n).*?(<!-- end -->)`)

// fill makes all tables of a document from the data files in a folder.
func fill(document, results string) (string, error) {
	var faults []error
	filled := marked.ReplaceAllStringFunc(document, func(text string) string {
		parts := marked.FindStringSubmatch(text)
		d, err := readData(filepath.Join(results, parts[2]))
		if err != nil {
			faults = append(faults, err)
			return text
		}
		table, err := d.compare(parts[3], strings.Split(parts[4], ", "))
		if err != nil {
			faults = append(faults, fmt.Errorf("table of %s: %w", parts[2], err))
			return text
		}
		return parts[1] + table + parts[5]
	})
	return filled, errors.Join(faults...)
}

// compare returns a Markdown table with a row for each case and implementation that is compared with the baseline:
// "baseline/ours (ratio)".
func (d data) compare(rows string, columns []string) (string, error) {
	wanted, err := regexp.Compile("^(?:" + rows + ")$")
	if err != nil {
		return "", fmt.Errorf("rows: %w", err)
	}
	for _, column := range columns {
		if !slices.Contains(d.header, column) {
			return "", fmt.Errorf("there is no column %q; choose some of %q", column, d.header)
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "| %s | %s |\n|---|%s\n", d.header[0], strings.Join(columns, " | "), strings.Repeat("--:|", len(columns)))
	found := false
	for _, row := range d.rows {
		name, implementation := row[0], row[1]
		if slices.Contains(baselines, implementation) || !wanted.MatchString(name) {
			continue
		}
		found = true
		label := name
		if implementation != ours && implementation != quartermaster {
			label += ", " + implementation
		}
		cells := []string{label}
		for _, column := range columns {
			cells = append(cells, beside(d.baseline(name, column), d.value(name, implementation, column)))
		}
		fmt.Fprintf(&text, "| %s |\n", strings.Join(cells, " | "))
	}
	if !found {
		return "", fmt.Errorf("no case matches %q", rows)
	}
	fmt.Fprintf(&text, "\n%s.\n", d.conditions)
	return text.String(), nil
}

const quartermaster = "quartermaster"

// baselines are the names of what ours is compared with.
var baselines = []string{upstream, "in-tree"}

func (d data) baseline(name, column string) string {
	for _, baseline := range baselines {
		if value := d.value(name, baseline, column); value != "" {
			return value
		}
	}
	return ""
}

// beside returns "theirs/own (ratio)", without a ratio if one of the two was not measured.
func beside(theirs, own string) string {
	base, errBase := strconv.ParseFloat(theirs, 64)
	value, errValue := strconv.ParseFloat(own, 64)
	if errBase == nil && errValue == nil && base > 0 {
		return fmt.Sprintf("%s/%s (%s)", theirs, own, rounded(value/base))
	}
	if theirs == "" {
		theirs = "–"
	}
	if own == "" {
		own = "–"
	}
	return theirs + "/" + own
}

// rounded has two significant digits below 1, so that small ratios can be compared, and three from 1 on. It has no exponent.
func rounded(value float64) string {
	digits := 3
	if value < 1 {
		digits = 2
	}
	text := strconv.FormatFloat(value, 'e', digits-1, 64)
	if short, err := strconv.ParseFloat(text, 64); err == nil {
		return strconv.FormatFloat(short, 'f', -1, 64)
	}
	return text
}

// fillFile makes the tables of a file.
func fillFile(path, results string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	filled, err := fill(string(text), results)
	if err != nil {
		return fmt.Errorf("make the tables of %s: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(filled), 0o644); err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return nil
}
