package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// CreatePods creates many pods at the same time, each with a claim from the
// template "one".
func (s *Space) CreatePods(prefix string, count int) {
	s.T.Helper()
	const atATime = 20
	errs := make([]error, count)
	var creators sync.WaitGroup
	for first := range atATime {
		creators.Go(func() {
			for i := first; i < count; i += atATime {
				pod := s.Pod(fmt.Sprintf("%s-%03d", prefix, i), builder.FromTemplate("one"))
				errs[i] = s.Cluster.create(s.T.Context(), s.Name, pod)
			}
		})
	}
	creators.Wait()
	require.NoError(s.T, errors.Join(errs...))
}

// RunningAndWaiting waits until there are exactly so many pods that run, each on
// a device of its own, and so many that wait because all devices are in use. It
// returns the names of those that run.
func (s *Space) RunningAndWaiting(running, waiting int) []string {
	s.T.Helper()
	var names []string
	s.Eventually(fmt.Sprintf("have %d pods running and %d waiting", running, waiting), func(context.Context) error {
		names = nil
		holders := map[string]string{}
		var open []error
		waitingPods := 0
		for _, pod := range s.Pods() {
			if pod.Spec.NodeName == "" {
				if err := Waits(pod, "request "+s.RequestName(), "held by"); err != nil {
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
func (s *Space) runsAlone(pod *corev1.Pod, holders map[string]string) error {
	if err := s.Runs(pod); err != nil {
		return err
	}
	for _, device := range s.DeviceNames(pod.Name) {
		if other := holders[device]; other != "" {
			require.FailNow(s.T, fmt.Sprintf("device %s was given to %s and %s", device, other, pod.Name))
		}
		holders[device] = pod.Name
	}
	return nil
}

// DeviceNames are "pool/device" of all devices of a pod, in order.
func (s *Space) DeviceNames(pod string) []string {
	s.T.Helper()
	var names []string
	for _, result := range s.Results(pod) {
		names = append(names, strings.Join([]string{result.Pool, result.Device}, "/"))
	}
	return names
}

// Bound counts the pods that are on nodes.
func (s *Space) Bound() int {
	bound := 0
	for _, pod := range s.Pods() {
		if pod.Spec.NodeName != "" {
			bound++
		}
	}
	return bound
}

// Allocated counts the claims that have devices.
func (s *Space) Allocated() int {
	s.T.Helper()
	allocated := 0
	for _, pod := range s.Pods() {
		claims, err := s.ClaimsOf(pod)
		if err != nil {
			continue // Not generated yet.
		}
		for _, claim := range claims {
			if claim.Status.Allocation != nil {
				allocated++
			}
		}
	}
	return allocated
}
