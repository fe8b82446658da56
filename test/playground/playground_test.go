package playground

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

func TestUpFleet(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fleet UpFleet
		want  string
	}{
		"default":          {fleet: UpFleet{Nodes: 4, DevicesPerNode: 8}},
		"smallest":         {fleet: UpFleet{Nodes: 1, DevicesPerNode: 1}},
		"a slice is full":  {fleet: UpFleet{Nodes: 1, DevicesPerNode: 128}},
		"no nodes":         {fleet: UpFleet{DevicesPerNode: 8}, want: "0 nodes"},
		"no devices":       {fleet: UpFleet{Nodes: 1}, want: "0 devices per node"},
		"too many devices": {fleet: UpFleet{Nodes: 1, DevicesPerNode: 129}, want: "ask for 1 to 128"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.fleet.Validate()
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			require.Len(t, tc.fleet.objects(), 2*tc.fleet.Nodes+1, "a slice for each node, and the class")
		})
	}
}

func TestHardwareTitle(t *testing.T) {
	t.Parallel()
	s := scenario.Scenario{Cluster: append(scenario.Nodes("a", 3),
		fleet.LocalSlice("d", "a-0", fleet.PlainGPUs("a-0", 0, 8)...).Obj(),
		fleet.Slice("d", "p", fleet.Licenses("x", 2)...).OnAllNodes().Obj())}
	require.Equal(t, "3 simulated nodes and 10 devices in 2 resource slices", hardwareTitle([]scenario.Scenario{s}))
}

// manifestPattern finds the manifests that the instructions pipe into kubectl.
var manifestPattern = regexp.MustCompile(`(?s)<<EOF\n(.*?)\nEOF\n`)

func TestInstructionsHoldValidManifests(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, writeInstructions(&out, "/path/of/bin", "/path/of/kubeconfig", "curl metrics", UpFleet{Nodes: 4, DevicesPerNode: 8}))
	require.Contains(t, out.String(), "export PATH=\"/path/of/bin:$PATH\"\nexport KUBECONFIG=\"/path/of/kubeconfig\"\n")
	require.Contains(t, out.String(), "asks for 9 GPUs where no node has more than 8")
	require.Contains(t, out.String(), "\ncurl metrics | grep ^quartermaster_\n")
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var kinds []string
	for _, match := range manifestPattern.FindAllStringSubmatch(out.String(), -1) {
		for _, document := range strings.Split(match[1], "\n---\n") {
			object, kind, err := decoder.Decode([]byte(document), nil, nil)
			require.NoError(t, err, document)
			require.NotNil(t, object)
			kinds = append(kinds, kind.Kind)
		}
	}
	require.Equal(t, []string{"ResourceClaimTemplate", "Pod", "ResourceClaim", "Pod", "DeviceTaintRule"}, kinds)
}

func TestClusterNotesWhatEnded(t *testing.T) {
	t.Parallel()
	cluster := &Cluster{ended: make(chan struct{})}
	closed := make(chan struct{})
	close(closed)
	cluster.watch(closed, func() error { return nil })
	require.NoError(t, cluster.Err(), "an end that was asked for is no error")

	crash := errors.New("scheduler crashed")
	ctx, cancel := cancelledByEnd(context.Background(), cluster)
	defer cancel()
	require.NoError(t, ctx.Err())
	cluster.watch(closed, func() error { return crash })
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), crash)
	cluster.watch(closed, func() error { return errors.New("and kwok as well") })
	require.ErrorIs(t, cluster.Err(), crash, "the first end is the cause")
}

func TestProgressLines(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	newProgress(&out).line("%d nodes", 3)
	require.Regexp(t, `^\[ *\d+\.\ds\] 3 nodes\n$`, out.String())
}
