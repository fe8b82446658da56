package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// display shows one line of progress, and whatever else there is.
type display struct {
	out io.Writer
	// rewrite is set if a line can be overwritten.
	rewrite bool
	// every is the time between two states.
	every time.Duration
	// shown is the state that is on the terminal.
	shown string
}

func newDisplay(out io.Writer) *display {
	if file, isFile := out.(*os.File); isFile && isTerminal(file) {
		return &display{out: out, rewrite: true, every: time.Second}
	}
	return &display{out: out, every: 20 * time.Second}
}

// state shows the progress.
func (d *display) state(text string) {
	switch {
	case text == "" || text == d.shown:
	case d.rewrite:
		fmt.Fprintf(d.out, "\r\x1b[K  %s", text)
	default:
		fmt.Fprintf(d.out, "  %s\n", text)
	}
	d.shown = text
}

// pass shows a line that says something else.
func (d *display) pass(line string) {
	d.end()
	fmt.Fprintln(d.out, line)
}

// end takes the line of progress away.
func (d *display) end() {
	if d.rewrite && d.shown != "" {
		fmt.Fprint(d.out, "\r\x1b[K")
	}
	d.shown = ""
}
