package tutorial

import (
	"regexp"
	"strings"
)

// anything is what the document has for what differs from time to time.
const anything = "..."

var spaces = regexp.MustCompile(`[ \t]+`)

// matches says whether something was printed as the document shows it.
func matches(document, printed string) bool {
	var pattern strings.Builder
	pattern.WriteString(`\A`)
	for _, line := range normalized(document) {
		if line == anything {
			pattern.WriteString(`(?:[^\n]*\n)*`)
			continue
		}
		for i, part := range strings.Split(line, anything) {
			if i > 0 {
				pattern.WriteString(`[^\n]*`)
			}
			pattern.WriteString(regexp.QuoteMeta(part))
		}
		pattern.WriteString(`\n`)
	}
	pattern.WriteString(`\z`)
	text := strings.Join(normalized(printed), "\n")
	if text != "" {
		text += "\n"
	}
	return regexp.MustCompile(pattern.String()).MatchString(text)
}

// normalized returns lines with one space between words, and none at the ends, without empty lines at the beginning and the end.
func normalized(text string) []string {
	text = strings.Trim(text, "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(spaces.ReplaceAllString(line, " "))
	}
	return lines
}
