package harness

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/checker"
)

// CheckSettled waits until the checker finds no violation in this space, and checks
// the history of that state. As long as one of our schedulers runs for its pods, no
// pod may wait that would fit, see MayWait.
func (s *Space) CheckSettled() {
	if s.Unchecked || s.T.Failed() {
		return // Tests end at a failure; violations after it are no news.
	}
	if err := s.Settled(s.Patience); err != nil {
		s.T.Error(err)
		s.tell()
	}
	if s.Cluster.OlderReleases {
		return
	}
	if err := s.checkReasonsOfPods(context.Background()); err != nil {
		s.T.Error(err)
	}
}

// Settled is CheckSettled with a limit of its own. It returns the violations at the end of the limit.
func (s *Space) Settled(limit time.Duration) error {
	err := Poll(context.Background(), limit, s.Violations)
	if err == nil {
		// The history does not change; only one of the informers may be late.
		err = Poll(context.Background(), limit, func(context.Context) error { return s.Cluster.history.check(s.Name) })
	}
	return err
}

// Violations returns an error if the checker finds violations in this space now.
func (s *Space) Violations(ctx context.Context) error {
	violations, err := checker.Check(ctx, s.Cluster.Client, checker.Options{
		Settled: true, Served: s.isServed, PodGroups: checker.PodGroupsFrom(s.Cluster.Client.CoreV1().RESTClient()),
	})
	if err != nil {
		return err
	}
	var own []checker.Violation
	for _, violation := range violations {
		if strings.Contains(violation.String(), s.Name) {
			own = append(own, violation)
		}
	}
	if len(own) > 0 {
		return fmt.Errorf("what must always hold does not:\n%s", checker.Format(own))
	}
	return nil
}

// NothingLeaked shows that every device that no claim holds can be allocated. A device
// would be lost if a running scheduler still reserved it, because an entry in flight did
// not end. NothingLeaked creates one pod more than there are free devices, and waits
// until one pod waits and all others run. Then it deletes the pods and returns the
// number of free devices.
//
// All devices of the space have to be exclusive, without taints and counters, in
// pools of one generation, and on nodes with room for one more pod per device.
func (s *Space) NothingLeaked() int {
	s.T.Helper()
	free := s.freeDevices()
	var fillers []string
	for i := range free + 1 {
		name := fmt.Sprintf("filler-%03d", i)
		s.ClaimAndPod(name, s.Want(1))
		fillers = append(fillers, name)
	}
	s.Eventually(fmt.Sprintf("run %d of %d pods on the devices that nobody holds", free, free+1), func(context.Context) error {
		var open []string
		running := 0
		for _, name := range fillers {
			pod, err := s.KnownPod(name)
			if err == nil {
				err = s.Runs(pod)
			}
			if err != nil {
				open = append(open, err.Error())
				continue
			}
			running++
		}
		if running != free || len(open) != 1 || !strings.Contains(open[0], "held by") {
			return fmt.Errorf("%d run, %d do not: %s", running, len(open), strings.Join(open, "; "))
		}
		return nil
	})
	s.CheckSettled()
	for _, name := range fillers {
		s.DeletePod(name)
		s.Delete(builder.Claim(name, s.Want(1)).Obj())
	}
	for _, name := range fillers {
		s.Gone(name)
		s.ClaimGone(name)
	}
	return free
}

// freeDevices counts the devices of the space that no claim holds, and fails the
// test if one is held twice.
func (s *Space) freeDevices() int {
	s.T.Helper()
	// No field selector: v1alpha2 has none for the driver.
	slices, err := s.Cluster.Client.ResourceV1().ResourceSlices().List(s.T.Context(), metav1.ListOptions{})
	require.NoError(s.T, err)
	free := map[string]bool{}
	for _, slice := range slices.Items {
		if slice.Spec.Driver != s.Driver {
			continue
		}
		for _, device := range slice.Spec.Devices {
			free[slice.Spec.Pool.Name+"/"+device.Name] = true
		}
	}
	claims, err := s.Cluster.Client.ResourceV1().ResourceClaims("").List(s.T.Context(), metav1.ListOptions{})
	require.NoError(s.T, err)
	holders := map[string]string{}
	for _, claim := range claims.Items {
		for _, result := range checker.Results(&claim) {
			if result.Driver != s.Driver {
				continue
			}
			device := result.Pool + "/" + result.Device
			require.Empty(s.T, holders[device], "device %s is held by claim %s and another one", device, claim.Name)
			holders[device] = claim.Name
			delete(free, device)
		}
	}
	return len(free)
}
