package gangs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestStream: small pods that take each device that becomes free do not starve a large pod and a gang that came later than most of
// them. A running small pod ends at a time, wherever it is, and there are always more of them.
func TestStream(t *testing.T) {
	harness.Long(t, "small pods come and go until the large ones run")
	t.Parallel()
	const nodes, each = 4, 4
	s := newSpace(t, "stream", true, nodes, each)
	s.StartScheduler(harness.SchedulerOptions{PluginArgs: harness.HoldArgs("1s")})
	s.Create(builder.Claim("node", s.Want(each)).Template())
	small := 0
	more := func(n int) {
		for range n {
			s.Create(s.Pod(fmt.Sprintf("small-%06d", small), builder.FromTemplate("one")))
			small++
		}
	}
	more(nodes * each)
	s.Eventually("fill the nodes", func(context.Context) error {
		if n := s.Allocated(); n != nodes*each {
			return fmt.Errorf("%d devices are allocated", n)
		}
		return nil
	})
	more(2 * nodes * each) // The backlog is older than what starves.
	s.Create(s.Pod("large", builder.FromTemplate("node")))
	s.group("gang", 2)
	var gang []string
	for i := range 2 {
		gang = append(gang, fmt.Sprintf("gang-%d", i))
		s.Create(in("gang", s.Pod(gang[i], builder.FromTemplate("node"))))
	}
	told, shown, ended := false, false, make(map[string]bool)
	s.Eventually("run the large pod and the gang in a stream of small pods", func(context.Context) error {
		running := ""
		for _, pod := range s.Pods() {
			switch {
			case pod.DeletionTimestamp != nil || ended[pod.Name]: // What the cache has may be older than the last deletion.
			case pod.Spec.NodeName == "":
				told = told || harness.Waits(pod, "held for pod "+s.Name+"/large") == nil || harness.Waits(pod, "held for group "+s.Name+"/gang") == nil
			case pod.Name[:5] == "small" && (running == "" || pod.Name < running):
				running = pod.Name
			}
		}
		shown = shown || told && s.showsHeld()
		for _, name := range append(gang, "large") {
			pod, err := s.KnownPod(name)
			if err != nil {
				return err
			}
			if pod.Spec.NodeName == "" {
				if running != "" {
					ended[running] = true
					s.deletePods(running)
					more(1)
				}
				return fmt.Errorf("%s waits: %s", name, harness.Reason(pod))
			}
		}
		return nil
	})
	require.True(t, told, "a small pod said why it waited")
	require.True(t, shown, "kubectl devices said for which pod devices are held")
	s.Running(append(gang, "large")...)
}

// showsHeld reports whether kubectl devices says for which pod of the space devices are held.
func (s *space) showsHeld() bool {
	s.T.Helper()
	var out bytes.Buffer
	command := kubectl.New(genericiooptions.IOStreams{In: new(bytes.Buffer), Out: &out, ErrOut: io.Discard})
	command.SetArgs([]string{"--kubeconfig", cluster.ControlPlane.AdminKubeconfig()})
	require.NoError(s.T, command.ExecuteContext(s.T.Context()))
	_, held, _ := strings.Cut(out.String(), "Devices are held for ")
	return strings.Contains(held, s.Name+"/large: ") || strings.Contains(held, s.Name+"/gang-")
}
