// Package screen formats results as tables and bars with colours, for terminals and for files.
package screen

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Screen describes the output device.
type Screen struct {
	// Width is the number of columns; 0 for files, in which nothing is shortened.
	Width int
	// Color is set on terminals, unless NO_COLOR is (https://no-color.org).
	Color bool
	// Terminal is set if the output is a terminal.
	Terminal bool
}

// Of returns the Screen of a writer.
func Of(w io.Writer) Screen {
	file, is := Raw(w).(*os.File)
	if !is || !term.IsTerminal(int(file.Fd())) {
		return Screen{}
	}
	s := Screen{Terminal: true, Color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil {
		s.Width = width
	}
	return s
}

// Style is a colour.
type Style string

// Styles by purpose.
const (
	Plain  Style = ""
	Header Style = "1"
	Good   Style = "32"
	Used   Style = "34"
	Partly Style = "36"
	Warn   Style = "33"
	Bad    Style = "31"
	Faint  Style = "2"
)

// Paint colours a text. The Cleaner turns the marks into colours when it writes the text.
func (s Screen) Paint(style Style, text string) string {
	if !s.Color || style == Plain || text == "" {
		return text
	}
	return mark + string(style) + markEnd + text + mark + "0" + markEnd
}
