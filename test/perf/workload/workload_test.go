package workload

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// shipped are the workloads of the repository. Their paths are relative to the
// directory above.
func shipped(t *testing.T) []Case {
	t.Helper()
	cases, err := Load(filepath.Join("..", "testdata"))
	require.NoError(t, err)
	return cases
}

func TestShippedWorkloadsReferToTemplatesThatExist(t *testing.T) {
	for _, c := range shipped(t) {
		for _, file := range c.Slices {
			require.FileExists(t, filepath.Join("..", file), c.Name)
		}
		for _, operation := range slices.Concat(c.WorkloadTemplate, c.InTreeTemplate) {
			for key, value := range operation {
				if strings.HasSuffix(key, "emplatePath") {
					require.FileExists(t, filepath.Join("..", value.(string)), c.Name)
				}
			}
		}
	}
}

// A parameter that nobody reads is a typing error.
func TestShippedWorkloadsSetTheParametersOfTheirCase(t *testing.T) {
	for _, shipped := range shipped(t) {
		for _, c := range []Case{shipped, shipped.InTree()} {
			used := make(map[string]bool)
			for _, operation := range c.WorkloadTemplate {
				addParameters(used, operation)
			}
			for _, w := range c.Workloads {
				set := make(map[string]bool)
				for name := range w.Params {
					set[name] = true
				}
				require.Equal(t, used, set, FullName(c, w))
			}
		}
	}
}

func addParameters(used map[string]bool, values map[string]any) {
	for _, value := range values {
		switch value := value.(type) {
		case string:
			if name, ok := strings.CutPrefix(value, "$"); ok {
				used[name] = true
			}
		case map[string]any:
			addParameters(used, value)
		}
	}
}

func TestShortWorkloadsAreSmall(t *testing.T) {
	short := 0
	for _, c := range shipped(t) {
		for _, w := range c.Workloads {
			if w.Short {
				short++
				require.LessOrEqual(t, w.Params["nodes"], float64(100), FullName(c, w))
			}
		}
	}
	require.Positive(t, short)
}

func TestInTree(t *testing.T) {
	operations := []map[string]any{{"opcode": "createNodes"}}
	both := Case{Slices: []string{"slice.yaml"}, WorkloadTemplate: operations}
	require.Equal(t, both, both.InTree(), "what both can do is the same for both")

	instead := []map[string]any{{"opcode": "createPods"}}
	got := Case{Slices: both.Slices, WorkloadTemplate: operations, InTreeTemplate: instead, VictimsPerPod: 3}.InTree()
	require.Equal(t, instead, got.WorkloadTemplate)
	require.Empty(t, got.Slices)
	require.Equal(t, 3, got.VictimsPerPod)
}

// On full nodes, and with at most one measured pod for each, everyone has to evict. Whether it
// is as many as VictimsPerPod says is checked when it has run.
func TestPreemptionNeedsItsVictims(t *testing.T) {
	const perNode = 4
	found := false
	for _, c := range shipped(t) {
		if c.VictimsPerPod == 0 {
			continue
		}
		found = true
		require.NotEmpty(t, c.InTreeTemplate, "%s: the in-tree plugin evicts nobody for devices", c.Name)
		for _, w := range c.Workloads {
			nodes, low, high := w.Params["nodes"].(float64), w.Params["lowPods"].(float64), w.Params["highPods"].(float64)
			require.EqualValues(t, perNode*nodes, low, "%s: full nodes", FullName(c, w))
			require.LessOrEqual(t, high, nodes, "%s: one on each node", FullName(c, w))
		}
	}
	require.True(t, found)
}

func TestUpstream(t *testing.T) {
	c := Case{
		Name:             "Case",
		Slices:           []string{"slice.yaml"},
		FeatureGates:     map[string]bool{"Gate": false},
		WorkloadTemplate: []map[string]any{{"opcode": "createNodes", "countParam": "$nodes"}},
	}
	w := Workload{Name: "small", Short: true, OccupiedClaims: 5, Params: map[string]any{"nodes": 3}}
	encoded, err := Upstream(c, w, "scheduler.yaml")
	require.NoError(t, err)
	var got any
	require.NoError(t, yaml.Unmarshal(encoded, &got))
	require.Equal(t, []any{map[string]any{
		"name":                "Case",
		"featureGates":        map[string]any{"DynamicResourceAllocation": true, "Gate": false},
		"schedulerConfigPath": "scheduler.yaml",
		"metricsCollectorConfig": map[string]any{"metrics": map[string]any{
			AttemptMetric: []any{map[string]any{"label": "result", "values": []any{"scheduled"}}},
		}},
		"workloadTemplate": []any{map[string]any{"opcode": "createNodes", "countParam": "$nodes"}},
		"workloads": []any{map[string]any{
			"name": "small", "labels": []any{"performance"}, "params": map[string]any{"nodes": float64(3)},
		}},
	}}, got, "what is only for the harness must not be in it: scheduler_perf refuses it")
}

func TestLoadRefuses(t *testing.T) {
	for name, test := range map[string]struct{ content, want string }{
		"an unknown field": {"- name: A\n  slice: [x]\n", "unknown field"},
		"the same name twice": {
			"- name: A\n  workloads: [{name: w}]\n- name: A\n  workloads: [{name: w}]\n", "A/w is defined twice"},
	} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(directory, "w.yaml"), []byte(test.content), 0o600))
			_, err := Load(directory)
			require.ErrorContains(t, err, test.want)
		})
	}
	_, err := Load(t.TempDir())
	require.ErrorContains(t, err, "has no files")
}

// kubernetes is the directory of upstream's sources.
func kubernetes(t *testing.T) string {
	t.Helper()
	output, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(output))
}

func TestLoadUpstream(t *testing.T) {
	cases, err := LoadUpstream(kubernetes(t))
	require.NoError(t, err)
	byName := make(map[string]Case)
	for _, c := range cases {
		byName[c.Name] = c
		require.NotEmpty(t, c.Workloads, c.Name)
		for _, operation := range c.WorkloadTemplate {
			for field, value := range operation {
				if strings.HasSuffix(field, "Path") {
					require.FileExists(t, value.(string), c.Name)
				}
			}
		}
	}
	for _, name := range []string{
		"SchedulingWithResourceClaimTemplate", "Partitionable", "PartitionableBacktracking", "ExtendedResource", "CompatibilityGroups",
		"SchedulingWithResourceClaimTemplateListAttributes", "SharedPodGroupResourceClaim", "SharedPodGroupResourceClaimTemplate",
		"ConsumableCapacity", "FirstAvailable", "DeviceTaintToleration",
	} {
		require.Contains(t, byName, UpstreamPrefix+name)
	}
	require.NotContains(t, byName, UpstreamPrefix+"PublishResourceSlices", "it has no pods to measure")
	require.True(t, byName[UpstreamPrefix+"CompatibilityGroups"].FeatureGates["DRADeviceCompatibilityGroups"])

	_, err = LoadUpstream(t.TempDir())
	require.ErrorContains(t, err, "did they move")
}

func TestUpstreamTakesGatesOfTheWorkload(t *testing.T) {
	encoded, err := Upstream(Case{Name: "C", FeatureGates: map[string]bool{"A": true, "B": true}},
		Workload{Name: "w", FeatureGates: map[string]bool{"B": false}}, "s.yaml")
	require.NoError(t, err)
	var got []upstreamCase
	require.NoError(t, yaml.Unmarshal(encoded, &got))
	require.Equal(t, map[string]bool{"DynamicResourceAllocation": true, "A": true, "B": false}, got[0].FeatureGates)
}

func TestPublishedWorkloadsExist(t *testing.T) {
	upstream, err := LoadUpstream(kubernetes(t))
	require.NoError(t, err)
	listed, err := ReadSelection(filepath.Join("..", "published.txt"), append(shipped(t), upstream...))
	require.NoError(t, err)
	require.True(t, listed("ClaimTemplate/full_500nodes"))
	require.False(t, listed("ClaimTemplate/empty_500nodes"))
}

func TestReadSelection(t *testing.T) {
	cases := []Case{{Name: "A", Workloads: []Workload{{Name: "x"}, {Name: "y"}}}}
	all, err := ReadSelection("", cases)
	require.NoError(t, err)
	require.True(t, all("A/x"))

	file := filepath.Join(t.TempDir(), "selection.txt")
	require.NoError(t, os.WriteFile(file, []byte("# why\n\nA/z\n"), 0o600))
	_, err = ReadSelection(file, cases)
	require.ErrorContains(t, err, `lists "A/z"`)
}
