package devicescmd

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	b "github.com/quartermaster-dra/quartermaster/internal/builder"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// TestGolden compares what commands print, which has to be readable at 80 columns.
func TestGolden(t *testing.T) {
	for name, test := range map[string]struct {
		objects whatif.Objects
		args    string
	}{
		"overview":          {zoo(), ""},
		"overview-wide":     {zoo(), "-o wide"},
		"overview-node":     {zoo(), "--node node-1"},
		"overview-broken":   {broken(), ""},
		"overview-json":     {zoo(), "-o json --node node-2"},
		"list":              {zoo(), "list"},
		"list-wide":         {zoo(), "list -o wide"},
		"list-node":         {zoo(), "list --node node-1 --attributes model,memory"},
		"list-class":        {zoo(), "list --class halves --free"},
		"list-selector":     {zoo(), "list --selector device.attributes[device.driver].model==\"A100\" -n research"},
		"list-yaml":         {zoo(), "list -o yaml --node node-2 --class halves"},
		"holders":           {zoo(), "holders"},
		"holders-wide":      {zoo(), "holders -o wide"},
		"holders-namespace": {broken(), "holders -n research"},
		"holders-broken":    {broken(), "holders"},
		"holders-claim":     {zoo(), "holders train-gpu"},
		"holders-pod":       {zoo(), "holders pod/research/half"},
		"holders-device":    {zoo(), "holders fabric/nic-0"},
		"holders-twice":     {broken(), "holders gpu.example.com/node-1/gpu-0"},
		"holders-json":      {zoo(), "holders -o json half-gpu -n research"},
		"many-nodes":        {many(5000), ""},
		"many-holders":      {many(5000), "holders"},
		"no-devices":        {whatif.Objects{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := run(t, test.objects, strings.Fields(test.args)...)
			require.NoError(t, err)
			golden(t, name, text)
			if strings.Contains(test.args, "-o ") {
				return
			}
			lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
			require.LessOrEqual(t, len(lines), 40, "what is large is summed up")
			for _, line := range lines {
				if strings.HasPrefix(line, "  ") && !strings.Contains(line, " is in") && !strings.Contains(line, " by ") && !strings.Contains(line, "reserved for") {
					require.LessOrEqual(t, utf8.RuneCountInString(line), 80, line)
				}
			}
		})
	}
}

// many has so many nodes with 8 GPUs each, of which more and more are in use, and some special ones.
func many(nodes int) whatif.Objects {
	var o whatif.Objects
	request := b.Request("gpu", b.Driver)
	for i := range nodes {
		node := fmt.Sprintf("node-%d", i)
		o.Nodes = append(o.Nodes, b.Node(node))
		devices := b.NumberedDevices("gpu", 8)
		if i%1000 == 7 {
			devices[7].Taint("broken", resourceapi.DeviceTaintEffectNoSchedule)
		}
		slice := b.NodeSlice(node, devices...)
		if i%500 == 3 {
			slice.Part(0, 2)
		}
		o.Slices = append(o.Slices, slice.Obj())
		for j := range i % 10 {
			if j < 8 {
				name := fmt.Sprintf("job-%d-%d", i, j)
				holding(&o, name, node, b.Claim(name, request).In(fmt.Sprintf("team-%d", i%40)).Allocated(node, fmt.Sprintf("gpu-%d", j)), time.Hour)
			}
		}
	}
	return o
}
