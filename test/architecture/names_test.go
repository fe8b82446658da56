package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	// metricName is a metric of ours, as Prometheus knows it; histograms have several series.
	metricName = regexp.MustCompile(`\bquartermaster_([a-z_]+?)(?:_bucket|_count|_sum)?\b`)
	// metricOption is what the code calls it, without the subsystem.
	metricOption = regexp.MustCompile(`\bSubsystem: metricsSubsystem, Name: "([a-z_]+)"`)
	// makeTarget is a target of the Makefile in quotes, or at the beginning of a line.
	makeTarget = regexp.MustCompile("(?m)(?:`|^)(?:[A-Z_]+=\\S+ )*make ([a-z][a-z-]*)")
	// makeRule is the beginning of a rule.
	makeRule = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
)

// All metrics of ours are described, and no document speaks of others.
func TestMetricsOfDocuments(t *testing.T) {
	t.Parallel()
	inCode := make(map[string]bool)
	for _, folder := range []string{"pkg", "internal"} {
		for _, source := range filesOf(t, filepath.Join(root, folder), func(name string) bool { return filepath.Ext(name) == ".go" }) {
			for _, match := range metricOption.FindAllStringSubmatch(source, -1) {
				inCode[match[1]] = true
			}
		}
	}
	require.NotEmpty(t, inCode)
	described, all := make(map[string]bool), documents(t)
	for path, document := range all {
		for _, match := range metricName.FindAllStringSubmatch(document, -1) {
			assert.True(t, inCode[match[1]], "%s names the metric %s", path, match[0])
		}
	}
	for _, match := range metricName.FindAllStringSubmatch(all["docs/monitoring.md"], -1) {
		described[match[1]] = true
	}
	require.Equal(t, inCode, described, "docs/monitoring.md describes all metrics")
}

// What a document says that make can do, it can do.
func TestDocumentsNameTargetsThatExist(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	targets := make(map[string]bool)
	for _, match := range makeRule.FindAllStringSubmatch(string(makefile), -1) {
		targets[match[1]] = true
	}
	named := 0
	isDocument := func(name string) bool { return filepath.Ext(name) == ".md" }
	for path, document := range filesOf(t, root, isDocument) {
		for _, match := range makeTarget.FindAllStringSubmatch(document, -1) {
			named++
			assert.True(t, targets[match[1]], "%s says %q, but the Makefile has no such target", path, match[0])
		}
	}
	require.Greater(t, named, 20)
}
