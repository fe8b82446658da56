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

// mark begins a colour until the Cleaner replaces it. It is random, so that no text of a user can contain it.
var mark = "\ue000" + rand.Text()

const markEnd = "\ue001"

// Clean replaces characters that would control a terminal or change the order of the text: control characters, as
// kubectl does with the escape character (^[), and Unicode format characters. Line breaks and tabs stay.
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
			for _, unit := range utf16.AppendRune(nil, r) { // as JSON escapes
				fmt.Fprintf(&clean, `\u%04x`, unit)
			}
		}
	}
	return clean.String()
}

// CleanLine works like Clean, for a text within a line.
func CleanLine(text string) string {
	return strings.NewReplacer("\n", "^J", "\t", "^I").Replace(Clean(text))
}

func controls(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp))
}

// Cleaner cleans everything that commands print, because much of it contains users' texts. It only lets the colours
// of Screen.Paint through.
type Cleaner struct{ w io.Writer }

// NewCleaner returns a writer that cleans what it writes.
func NewCleaner(w io.Writer) *Cleaner { return &Cleaner{w: w} }

// Write implements io.Writer. Each call must contain whole characters and colours.
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

// Raw returns the writer behind a Cleaner, for output that is not for a terminal.
func Raw(w io.Writer) io.Writer {
	if cleaner, is := w.(*Cleaner); is {
		return cleaner.w
	}
	return w
}
