package workload

import (
	"fmt"
	"os"
	"strings"
)

// ReadSelection reads names of workloads, one a line; empty lines and those that begin
// with # say nothing. It returns whether a name is among them, which all are if there is
// no file. A name that no case has is an error.
func ReadSelection(file string, cases []Case) (func(name string) bool, error) {
	if file == "" {
		return func(string) bool { return true }, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read a selection of workloads: %w", err)
	}
	known := make(map[string]bool)
	for _, c := range cases {
		for _, w := range c.Workloads {
			known[FullName(c, w)] = true
		}
	}
	listed := make(map[string]bool)
	for line := range strings.Lines(string(content)) {
		name := strings.TrimSpace(line)
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if !known[name] {
			return nil, fmt.Errorf("read a selection of workloads: %s lists %q, which is the name of none; correct it", file, name)
		}
		listed[name] = true
	}
	return func(name string) bool { return listed[name] }, nil
}
