package perf

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// locateSources tells upstream's test API server where its certificates are: in the
// module cache, beside its source files. Programs built with -trimpath do not know
// that directory themselves; upstream reads it from two variables that Bazel sets.
func locateSources() error {
	output, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		return fmt.Errorf("find the module cache with `go env GOMODCACHE`; is go on the PATH? %w", err)
	}
	if err := os.Setenv("TEST_SRCDIR", strings.TrimSpace(string(output))); err != nil {
		return err
	}
	return os.Setenv("TEST_WORKSPACE", ".")
}

// kubernetesSources is the directory of the module k8s.io/kubernetes of the version that
// this is built with.
func kubernetesSources() (string, error) {
	output, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return "", fmt.Errorf("find the sources of Kubernetes with `go list -m`: %w", err)
	}
	return strings.TrimSpace(string(output)), nil
}
