package workload

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// UpstreamPrefix is the prefix of the names of upstream's own cases here: some of them have
// the same names as ours.
const UpstreamPrefix = "upstream/"

// upstreamDirectories are the directories of upstream's configurations for devices, below
// their common directory. extendedresource/scoring is left out: it measures the score of
// another plugin and needs a scheduler configuration of its own.
var upstreamDirectories = []string{
	".", "partitionabledevices", "extendedresource", "compatibilitygroups", "listattributes",
	"workloadresourceclaims", "consumablecapacity", "prioritizedlist", "devicetaints",
}

// LoadUpstream reads upstream's own configurations below sources, the directory of the
// module k8s.io/kubernetes. It changes only the parts that cannot be used here: it makes the
// paths of files absolute, and drops scheduler configurations, thresholds and labels. It
// leaves out cases that do not measure pods in Namespace.
func LoadUpstream(sources string) ([]Case, error) {
	var cases []Case
	for _, directory := range upstreamDirectories {
		directory = filepath.Join(sources, "test", "integration", "scheduler_perf", "dra", directory)
		file := filepath.Join(directory, "performance-config.yaml")
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("load upstream's workloads: %w; did they move in this release of Kubernetes?", err)
		}
		var read []Case
		// Not strict: the files have fields that Case does not have.
		if err := yaml.Unmarshal(content, &read); err != nil {
			return nil, fmt.Errorf("load upstream's workloads: %s: %w", file, err)
		}
		for _, c := range read {
			if !measuresPods(c) {
				continue
			}
			c.Name = UpstreamPrefix + c.Name
			for _, operation := range c.WorkloadTemplate {
				makePathsAbsolute(operation, directory)
			}
			cases = append(cases, c)
		}
	}
	return cases, check(cases)
}

func measuresPods(c Case) bool {
	for _, operation := range c.WorkloadTemplate {
		if operation["opcode"] == "createPods" && operation["namespace"] == Namespace && operation["collectMetrics"] == true {
			return true
		}
	}
	return false
}

// makePathsAbsolute makes the paths of files in an operation absolute. They are relative to
// the directory of its configuration.
func makePathsAbsolute(operation map[string]any, directory string) {
	for field, value := range operation {
		if file, ok := value.(string); ok && strings.HasSuffix(field, "Path") && !filepath.IsAbs(file) {
			operation[field] = filepath.Join(directory, file)
		}
	}
}
