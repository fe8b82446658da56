package screen

import (
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// mark begins a colour until the Cleaner makes one of it: no text of a user can have it, since nobody knows it before.
var mark = "\ue000" + rand.Text()

const markEnd = "\ue001"

// Clean replaces what would control a terminal, or show a text in another order than it is in: control characters, in the
// way in which kubectl does it with the escape character (^[), and those that format Unicode. Line ends and tabs stay.
func Clean(text string) string {
	if !strings.ContainsFunc(text, controls) && utf8.ValidString(text) {
		return text
	}
	var clean strings.Builder
	for _, r := range text {
		switch {
		case !controls(r):
			clean.WriteRune(r)
		case r < ' ':
			clean.WriteByte('^')
			clean.WriteByte(byte(r) ^ 0x40)
		default:
			for _, unit := range utf16.AppendRune(nil, r) { // The escapes of JSON.
				fmt.Fprintf(&clean, `\u%04x`, unit)
			}
		}
	}
	return clean.String()
}

// CleanLine is Clean for a text that is part of a line.
func CleanLine(text string) string {
	return strings.NewReplacer("\n", "^J", "\t", "^I").Replace(Clean(text))
}

func controls(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp))
}

// Cleaner cleans all that commands print: texts of users are in much of it. Only colours of Screen.Paint get through.
type Cleaner struct{ w io.Writer }

// NewCleaner returns a writer that cleans what it writes.
func NewCleaner(w io.Writer) *Cleaner { return &Cleaner{w: w} }

// Write implements io.Writer. A call has whole characters and colours.
func (c *Cleaner) Write(p []byte) (int, error) {
	text := Clean(string(p))
	if strings.Contains(text, mark) {
		parts := strings.Split(text, mark)
		for i := range parts[1:] {
			style, rest, _ := strings.Cut(parts[i+1], markEnd)
			parts[i+1] = "\x1b[" + style + "m" + rest
		}
		text = strings.Join(parts, "")
	}
	if _, err := c.w.Write([]byte(text)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Raw returns what a Cleaner writes to, for what no terminal is to show.
func Raw(w io.Writer) io.Writer {
	if cleaner, is := w.(*Cleaner); is {
		return cleaner.w
	}
	return w
}
