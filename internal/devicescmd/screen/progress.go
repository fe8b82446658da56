package screen

import (
	"fmt"
	"io"
)

// Progress shows on one line how far long work has got, and wipes it out at the end. It does nothing but on a
// terminal.
type Progress struct {
	w     io.Writer
	on    bool
	width int
	shown bool
}

// NewProgress returns progress on a writer, which usually is that for errors.
func NewProgress(w io.Writer) *Progress {
	s := Of(w)
	return &Progress{w: Raw(w), on: s.Terminal, width: s.Width}
}

// Step replaces what is shown.
func (p *Progress) Step(format string, args ...any) {
	if !p.on {
		return
	}
	text := CleanLine(fmt.Sprintf(format, args...))
	if p.width > 1 {
		text = Shorten(text, p.width-1)
	}
	fmt.Fprint(p.w, "\r\x1b[K"+text)
	p.shown = true
}

// Clear wipes out what is shown.
func (p *Progress) Clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
