package kubectl

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestGolden compares what commands print, which has to be readable at 80 columns.
func TestGolden(t *testing.T) {
	for name, test := range map[string]struct {
		objects whatif.Objects
		args    string
	}{
		"overview":             {zoo(), ""},
		"overview-wide":        {zoo(), "-o wide"},
		"overview-node":        {zoo(), "--node node-1"},
		"overview-broken":      {broken(), ""},
		"overview-json":        {zoo(), "-o json --node node-2"},
		"list":                 {zoo(), "list"},
		"list-wide":            {zoo(), "list -o wide"},
		"list-scarce":          {scarce(), "list"},
		"holders-scarce":       {scarce(), "holders"},
		"fragmentation-scarce": {scarce(), "fragmentation"},
		"list-node":            {zoo(), "list --node node-1 --attributes model,memory"},
		"list-class":           {zoo(), "list --class halves --free"},
		"list-cel":             {zoo(), "list --cel device.attributes[device.driver].model==\"A100\" -n research"},
		"list-labels":          {zoo(), "list -l rack=rack-node-1"},
		"list-labels-cel":      {zoo(), "list -l rack!=rack-node-1 --class halves --cel true"},
		"list-name":            {zoo(), "list --node node-2 -o name"},
		"list-columns":         {zoo(), "list --class halves -o custom-columns=DEVICE:.device,NODE:.node,HOLDER:.holders[*].claim"},
		"list-jsonpath":        {zoo(), "list --node node-1 -o jsonpath={range.items[*]}{.pool}/{.device}={.state};{end}"},
		"list-template":        {zoo(), "list --node node-1 -o go-template={{range.items}}{{.device}},{{end}}"},
		"holders-name":         {zoo(), "holders pod/research/half -o name"},
		"list-json":            {scarce(), "list -o json"},
		"list-yaml":            {zoo(), "list -o yaml --node node-2 --class halves"},
		"holders":              {zoo(), "holders"},
		"holders-wide":         {zoo(), "holders -o wide"},
		"holders-namespace":    {broken(), "holders -n research"},
		"holders-broken":       {broken(), "holders"},
		"holders-claim":        {zoo(), "holders train-gpu"},
		"holders-pod":          {zoo(), "holders pod/research/half"},
		"holders-device":       {zoo(), "holders fabric/nic-0"},
		"holders-twice":        {broken(), "holders gpu.example.com/node-1/gpu-0"},
		"holders-json":         {zoo(), "holders -o json half-gpu -n research"},
		"many-nodes":           {many(5000), ""},
		"many-holders":         {many(5000), "holders"},
		"no-devices":           {whatif.Objects{}, ""},
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

// scarce has a shared GPU with one share left, a taint without effect, a cordoned node, a claim with two shares of one
// device, and claims that differ in capacity or selector.
func scarce() whatif.Objects {
	var o whatif.Objects
	o.Classes = []*resourceapi.DeviceClass{b.DriverClass(b.Driver)}
	cordoned := b.Node("node-2")
	cordoned.Spec.Unschedulable = true
	o.Nodes = append(o.Nodes, b.Node("node-1"), cordoned)
	for _, node := range o.Nodes {
		node.Status.Allocatable = b.Resources("cpu", "8", "pods", "20")
	}
	gpu := func(name string) *b.DeviceBuilder {
		return b.Device(name).Shared().Capacity("memory", "80Gi").Capacity("shares", "4")
	}
	o.Slices = append(o.Slices, b.NodeSlice("node-1", gpu("gpu-0"), gpu("gpu-1").Taint("seen", resourceapi.DeviceTaintEffectNone)).Obj(),
		b.NodeSlice("node-2", gpu("gpu-0"), b.Device("gpu-1")).Obj())
	request := func() *b.RequestBuilder { return b.Request("gpu", b.Driver) }
	thrice := shared(b.Claim("thrice", request().Count(3)).Allocated("node-1", "gpu-0", "gpu-0", "gpu-0"), "memory", "1Gi", "shares", "1")
	for i := range thrice.Status.Allocation.Devices.Results {
		thrice.Status.Allocation.Devices.Results[i].ShareID = ptr.To(types.UID(fmt.Sprint("share-", i)))
	}
	holding(&o, "thrice", "node-1", thrice, time.Hour)
	holding(&o, "drained", "node-2", b.Claim("drained", request()).Allocated("node-2", "gpu-1"), time.Hour)
	for _, amount := range []string{"10Gi", "20Gi"} {
		o.Claims = append(o.Claims, b.Claim("asks-"+strings.ToLower(amount), request().Capacity("memory", amount)).Obj())
	}
	o.Claims = append(o.Claims, b.Claim("asks-h100", request().Where(`device.attributes["gpu.example.com"].model == "H100"`)).Obj())
	return o
}

// many returns nodes with 8 GPUs each and increasing use, and some special ones.
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
