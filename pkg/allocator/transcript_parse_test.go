package allocator_test

import (
	"errors"
	"fmt"
	"strings"
)

// transcript is a file of commands and their output.
type transcript struct {
	steps []transcriptStep
	end   []string // lines after the last command
}

// transcriptStep is a command with what belongs to it.
type transcriptStep struct {
	line    int      // of the command, from 1
	before  []string // comments and empty lines
	command string
	input   []string
	// output is nil if the file has none, not even one line after the separator.
	output *string
}

// separator stands between a command with its input and the output.
const separator = "----"

// parseTranscript takes a file apart. A step ends at the first empty line, so that
// neither input nor output can have one.
func parseTranscript(text string) (transcript, error) {
	if !strings.HasPrefix(text, "# ") {
		return transcript{}, errors.New("line 1: a transcript begins with a comment that says what it shows, and why it comes out this way")
	}
	var result transcript
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for next := 0; next < len(lines); {
		var before []string
		for next < len(lines) && (lines[next] == "" || strings.HasPrefix(lines[next], "#")) {
			before = append(before, lines[next])
			next++
		}
		if next == len(lines) {
			result.end = before
			break
		}
		end := next
		for end < len(lines) && lines[end] != "" {
			end++
		}
		result.steps = append(result.steps, parseStep(before, next+1, lines[next:end]))
		next = end
	}
	if len(result.steps) == 0 {
		return transcript{}, errors.New("there is no command")
	}
	return result, nil
}

// parseStep takes the lines of one step.
func parseStep(before []string, line int, lines []string) transcriptStep {
	step := transcriptStep{line: line, before: before, command: lines[0], input: lines[1:]}
	for i, text := range step.input {
		if text == separator {
			if output := strings.Join(step.input[i+1:], "\n"); output != "" {
				step.output = &output
			}
			step.input = step.input[:i]
			break
		}
	}
	return step
}

// String returns the text of the file.
func (s transcript) String() string {
	var b strings.Builder
	for _, step := range s.steps {
		for _, line := range append(append(step.before, step.command), step.input...) {
			fmt.Fprintln(&b, line)
		}
		if step.output != nil {
			fmt.Fprintln(&b, separator)
			fmt.Fprintln(&b, *step.output)
		}
	}
	for _, line := range s.end {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}
