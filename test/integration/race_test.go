package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/playground/workload"
)

// Two hundred pods that each want one of a hundred devices.
func TestMorePodsThanDevices(t *testing.T) {
	t.Parallel()
	const nodes, devicesPerNode, pods = 10, 10, 200
	const devices, released = nodes * devicesPerNode, nodes * devicesPerNode / 2
	s := newSpace(t, "race", nodes)
	for node := range nodes {
		s.devices(node, numbered(devicesPerNode)...)
	}
	s.create(workload.Template("one", workload.Request("gpu", s.want(1))))
	s.createPods("racer", pods)

	first := s.runningAndWaiting(devices, pods-devices)
	slices.Sort(first)
	for _, name := range first[:released] {
		s.deletePod(name)
	}
	second := s.runningAndWaiting(devices, pods-devices-released)
	for _, name := range first[released:] {
		require.Contains(t, second, name, "a pod that ran and was not deleted has to keep running")
	}
}

// createPods creates many pods at the same time, each with a claim from the
// template "one".
func (s *space) createPods(prefix string, count int) {
	s.t.Helper()
	const atATime = 20
	errs := make([]error, count)
	var creators sync.WaitGroup
	for first := range atATime {
		creators.Go(func() {
			for i := first; i < count; i += atATime {
				pod := s.pod(fmt.Sprintf("%s-%03d", prefix, i), fromTemplate("one"))
				errs[i] = cluster.objects.Create(s.t.Context(), s.name, pod)
			}
		})
	}
	creators.Wait()
	require.NoError(s.t, errors.Join(errs...))
}

// runningAndWaiting waits until there are exactly so many pods that run, each on
// a device of its own, and so many that wait because all devices are in use. It
// returns the names of those that run.
func (s *space) runningAndWaiting(running, waiting int) []string {
	s.t.Helper()
	var names []string
	s.eventually(fmt.Sprintf("have %d pods running and %d waiting", running, waiting), func(context.Context) error {
		names = nil
		holders := map[string]string{}
		var open []error
		waitingPods := 0
		for _, pod := range s.pods() {
			if pod.Spec.NodeName == "" {
				if err := waits(pod, "request gpu", "held by"); err != nil {
					open = append(open, err)
				}
				waitingPods++
				continue
			}
			if err := s.runsAlone(pod, holders); err != nil {
				open = append(open, err)
			}
			names = append(names, pod.Name)
		}
		if len(open) > 0 || len(names) != running || waitingPods != waiting {
			return fmt.Errorf("%d are on nodes and %d wait; of these, %d are not as wanted, for instance: %v",
				len(names), waitingPods, len(open), slices.Concat(open, []error{nil})[0])
		}
		return nil
	})
	return names
}

// runsAlone is nil if the pod runs and has a device that is not in holders yet.
func (s *space) runsAlone(pod *corev1.Pod, holders map[string]string) error {
	if err := runs(pod); err != nil {
		return err
	}
	for _, device := range s.deviceNames(pod.Name) {
		if other := holders[device]; other != "" {
			require.FailNow(s.t, fmt.Sprintf("device %s was given to %s and %s", device, other, pod.Name), s.describe())
		}
		holders[device] = pod.Name
	}
	return nil
}

// deviceNames are "pool/device" of all devices of a pod, in order.
func (s *space) deviceNames(pod string) []string {
	s.t.Helper()
	var names []string
	for _, result := range s.results(pod) {
		names = append(names, strings.Join([]string{result.Pool, result.Device}, "/"))
	}
	return names
}
