package upgrade

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const important = "upgrade-important"

// TestNominatedBefore: a scheduler evicts pods and nominates another one for their device, and is killed before they are
// gone. One of the other release gives the device to the nominated pod, and evicts nobody else.
func TestNominatedBefore(t *testing.T) {
	needsPrevious(t, "scheduler")
	t.Parallel()
	for _, way := range directions {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			cluster.PriorityClass(t, important, 1000)
			s := &space{Space: cluster.NewSpace(t, "nominated-"+way.name, "", 2)}
			s.Create(builder.Slice(s.Name).OfDriver(s.Driver).OnAllNodes().Devices(harness.Numbered(2)...).Obj(),
				builder.Claim("device", s.Want(1)).Template())
			first := s.start(way.first, "-1", 0)
			for _, name := range []string{"one", "other"} {
				pod := s.PodOnNode(name, 1, builder.FromTemplate("device"))
				pod.Annotations = map[string]string{"pod-delete.stage.kwok.x-k8s.io/delay": "8s"}
				s.Create(pod)
			}
			s.Running("one", "other")
			preemptor := s.PodOnNode("preemptor", 0, builder.FromTemplate("device"))
			preemptor.Spec.PriorityClassName = important
			s.Create(preemptor)
			s.Eventually("have the pod nominated", func(context.Context) error {
				pod, err := s.KnownPod(preemptor.Name)
				if err == nil && pod.Status.NominatedNodeName == "" {
					err = errors.New("it is not")
				}
				return err
			})
			require.NoError(t, first.Kill())
			require.Equal(t, 2, s.Bound(), "the victim has to be there when the next one comes")
			s.Create(s.PodOnNode("low", 0, builder.FromTemplate("device")))
			s.start(way.then, "-2", 0)
			s.Running(preemptor.Name)
			s.Eventually("see one of the two stay", func(context.Context) error {
				if left := s.Bound(); left != 2 {
					return fmt.Errorf("%d pods are on nodes", left)
				}
				return nil
			})
			s.Waiting("low", "held by other claims")
			s.noNominations()
		})
	}
}
