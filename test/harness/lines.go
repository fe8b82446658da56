package harness

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	// shownLog is the number of bytes at the end of a log that are searched for lines about a
	// space, shownLines the maximum number of lines shown, shownBytes that of bytes of each.
	shownLog   = 4 << 20
	shownLines = 24
	shownBytes = 400
)

// logHeader matches klog's header of a line: severity, date, time, process, and line of the source.
var logHeader = regexp.MustCompile(`^([IWEF])\d{4} (\d\d:\d\d:\d\d\.\d+) +\d+ [^ ]+\] `)

var digits = regexp.MustCompile(`[0-9]+`)

// linesAbout returns the lines of a log about a space: lines about objects in its namespace, and warnings and errors with any
// name of the space. It returns the last of these lines, shortened, in their order. Of lines that differ only in numbers and in
// names of objects, it returns the last one.
func linesAbout(log []byte, space string) []string {
	type said struct {
		at    int
		line  string
		alike int
	}
	// A node is called "space-0", a driver "space.example.com"; another space is "space2" or "r2-space".
	anything := regexp.MustCompile(`(^|[^a-z0-9-])` + regexp.QuoteMeta(space) + `([^a-z0-9]|$)`)
	object := regexp.MustCompile(`(^|[^a-z0-9-])` + regexp.QuoteMeta(space) + `/[a-z0-9.-]*`)
	known := make(map[string]*said)
	lines := bufio.NewScanner(bytes.NewReader(log))
	lines.Buffer(nil, len(log)+1)
	for at := 0; lines.Scan(); at++ {
		line := lines.Text()
		header := logHeader.FindStringSubmatch(line)
		if !object.MatchString(line) && (header == nil || header[1] == "I" || !anything.MatchString(line)) {
			continue
		}
		what := line
		if header != nil {
			what = line[len(header[0]):]
			line = header[1] + " " + header[2] + " " + what
		}
		kind := digits.ReplaceAllString(object.ReplaceAllString(what, "$1"), "")
		s := known[kind]
		if s == nil {
			s = &said{alike: -1}
			known[kind] = s
		}
		s.at, s.line, s.alike = at, line, s.alike+1
	}
	var all []*said
	for _, s := range known {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *said) int { return cmp.Compare(a.at, b.at) })
	var shown []string
	if more := len(all) - shownLines; more > 0 {
		shown, all = append(shown, fmt.Sprintf("(%d others before)", more)), all[more:]
	}
	for _, s := range all {
		line := s.line
		if len(line) > shownBytes {
			line = strings.ToValidUTF8(line[:shownBytes], "") + "..."
		}
		if s.alike > 0 {
			line += fmt.Sprintf(" (%d before it are like it)", s.alike)
		}
		shown = append(shown, line)
	}
	return shown
}

// logs returns the paths of the logs of the processes that the tests have started, without the control plane's.
func (s *Space) logs() []string {
	paths, _ := filepath.Glob(filepath.Join(s.Cluster.Logs, "*.log"))
	if s.Log != "" && !slices.Contains(paths, s.Log) {
		paths = append(paths, s.Log)
	}
	return slices.DeleteFunc(paths, func(path string) bool { return filepath.Base(path) == controlPlaneLog })
}

// readEnd reads the last part of a log.
func readEnd(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-shownLog), shownLog))
	if info.Size() > shownLog {
		_, content, _ = bytes.Cut(content, []byte("\n"))
	}
	return content, err
}
