package controlplane

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"k8s.io/klog/v2"
)

// componentLog is the file that all components write to.
//
// Kubernetes components log through klog, which is process-wide: while a
// control plane runs, klog output of the embedding program goes to this file
// as well, except fatal messages, which also reach standard error.
type componentLog struct {
	path  string
	file  *os.File
	flags *flag.FlagSet
	// earlier holds the values of the klog flags that redirect changed.
	earlier   map[string]string
	verbosity int
}

// openComponentLog opens the file and redirects klog to it.
func openComponentLog(path string, verbosity int) (*componentLog, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log file of the control plane: %w; name a file that can be written in Options.LogFile", err)
	}
	l := &componentLog{path: path, file: file, verbosity: verbosity, earlier: map[string]string{}}
	l.flags = flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(l.flags)
	if err := l.redirect(); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *componentLog) redirect() error {
	klog.SetOutput(l.file)
	settings := [][2]string{
		// One line a message, although the file stands for every severity.
		{"one_output", "true"},
		{"stderrthreshold", "FATAL"},
		{"alsologtostderr", "false"},
		{"v", strconv.Itoa(l.verbosity)},
		{"logtostderr", "false"},
	}
	for _, setting := range settings {
		name, value := setting[0], setting[1]
		f := l.flags.Lookup(name)
		if f == nil {
			return fmt.Errorf("redirect klog to %s: this version of klog has no flag %q", l.path, name)
		}
		l.earlier[name] = f.Value.String()
		if err := f.Value.Set(value); err != nil {
			return fmt.Errorf("redirect klog to %s: set flag %q to %q: %w", l.path, name, value, err)
		}
	}
	return nil
}

// close gives klog its earlier flags back and closes the file.
func (l *componentLog) close() error {
	klog.Flush()
	var errs []error
	for name, value := range l.earlier {
		errs = append(errs, l.flags.Lookup(name).Value.Set(value))
	}
	return errors.Join(append(errs, l.file.Close())...)
}

// lastErrors returns the last lines of a log in which a server says why it ends, each after a line break.
func lastErrors(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	var said []string
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "Error: ") || strings.Contains(line, `"command failed"`) {
			said = append(said, line)
		}
	}
	if len(said) == 0 {
		return ""
	}
	return "\n" + strings.Join(said[max(0, len(said)-3):], "\n")
}
