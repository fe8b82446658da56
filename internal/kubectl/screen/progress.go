package screen

import (
	"fmt"
	"io"
)

// Progress shows the progress of long work on one line, and erases it at the end. It only works on a terminal.
type Progress struct {
	w     io.Writer
	on    bool
	width int
	shown bool
}

// NewProgress returns a Progress that writes to w, usually stderr.
func NewProgress(w io.Writer) *Progress {
	s := Of(w)
	return &Progress{w: Raw(w), on: s.Terminal, width: s.Width}
}

// Step replaces the text.
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

// Clear erases the text.
func (p *Progress) Clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
