package scenario

import (
	"fmt"
	"io"
	"strings"
)

// textWidth is the width at which the last column is wrapped.
const textWidth = 100

// WriteTable prints the pods of all scenarios: the description of each scenario, then pod, node, and devices or
// reason.
func WriteTable(out io.Writer, scenarios []Scenario, recorder *Recorder) error {
	rows := make([][]Row, len(scenarios))
	podWidth, nodeWidth := len("POD"), len("NODE")
	for index, s := range scenarios {
		rows[index] = recorder.Rows(s.Name)
		for _, row := range rows[index] {
			podWidth = max(podWidth, len(row.Pod))
			nodeWidth = max(nodeWidth, len(row.Node))
		}
	}
	format := fmt.Sprintf("  %%-%ds  %%-%ds  %%s\n", podWidth, nodeWidth)
	var text strings.Builder
	for index, s := range scenarios {
		fmt.Fprintf(&text, "\n%s: %s\n", s.Name, s.Shows)
		fmt.Fprintf(&text, format, "POD", "NODE", "CLAIM/REQUEST -> DEVICES, OR THE REASON")
		for _, row := range rows[index] {
			writeRow(&text, format, row)
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func writeRow(text *strings.Builder, format string, row Row) {
	pod, node := row.Pod, row.Node
	if node == "" {
		node = "-"
	}
	var lines []string
	for _, line := range row.Lines {
		lines = append(lines, wrap(line, textWidth)...)
	}
	if len(lines) == 0 {
		lines = []string{"(no claims)"}
	}
	for _, line := range lines {
		fmt.Fprintf(text, format, pod, node, line)
		// Only the first line of a row has its pod and node.
		pod, node = "", ""
	}
}

// wrap breaks text at spaces into lines of at most width bytes; a longer word
// gets a line of its own.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
