package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applyresource "k8s.io/client-go/applyconfigurations/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// Two drivers report about the devices of a claim all the time, one with server-side
// apply and one with updates, while pods come and go that share the claim. Each report
// of a driver is the only one of its kind, so that a lost one would be missing.
func TestDriverStatusIsNeverLost(t *testing.T) {
	harness.Long(t, "two drivers write hundreds of reports")
	t.Parallel()
	const pods, rounds = 6, 3
	s := newSpace(t, "driver-status", 1)
	s.Devices(0, numbered(2)...)
	s.Create(builder.Claim("shared", s.Want(2)).Obj(), s.Pod("first", builder.Uses("shared")))
	s.Running("first")

	ctx, stop := context.WithCancel(t.Context())
	var reports sync.WaitGroup
	written := make([]int, 2)
	for i, report := range []func(context.Context, int) error{s.applyStatus, s.updateStatus} {
		reports.Go(func() {
			for ctx.Err() == nil {
				if err := report(ctx, written[i]+1); err == nil {
					written[i]++
				}
			}
		})
	}
	for range rounds {
		var names []string
		for i := range pods {
			name := fmt.Sprintf("p-%d", i)
			names = append(names, name)
			s.Create(s.Pod(name, builder.Uses("shared")))
		}
		s.Running(names...)
		for _, name := range names {
			s.DeletePod(name)
			s.Gone(name)
		}
		s.reservedFor("shared", 1)
	}
	stop()
	reports.Wait()

	t.Logf("%d reports were applied, %d were updates", written[0], written[1])
	claim := s.LiveClaim("shared")
	require.Len(t, claim.Status.Devices, 2)
	for i, device := range []string{"gpu-0", "gpu-1"} {
		require.Greater(t, written[i], rounds, "too few reports to get into the way of anything")
		var found []string
		for _, status := range claim.Status.Devices {
			if status.Device == device {
				for _, condition := range status.Conditions {
					found = append(found, condition.Message)
				}
			}
		}
		// A report that was cut off at the end may have been stored all the same.
		require.Len(t, found, 1)
		require.Contains(t, []string{fmt.Sprint(written[i]), fmt.Sprint(written[i] + 1)}, found[0], "last report about %s", device)
	}
	s.DeletePod("first")
}

// applyStatus reports about the first device with server-side apply.
func (s *space) applyStatus(ctx context.Context, number int) error {
	apply := applyresource.ResourceClaim("shared", s.Name).WithStatus(applyresource.ResourceClaimStatus().WithDevices(
		applyresource.AllocatedDeviceStatus().WithDriver(s.Driver).WithPool(s.Node(0)).WithDevice("gpu-0").WithConditions(
			applymetav1.Condition().WithType("Ready").WithStatus(metav1.ConditionTrue).WithReason("Tested").
				WithLastTransitionTime(metav1.Now()).WithMessage(fmt.Sprint(number)))))
	_, err := s.Cluster.Client.ResourceV1().ResourceClaims(s.Name).ApplyStatus(ctx, apply, metav1.ApplyOptions{FieldManager: "driver", Force: true})
	return err
}

// updateStatus reports about the second device with an update, which fails if anything
// else was written meanwhile.
func (s *space) updateStatus(ctx context.Context, number int) error {
	claims := s.Cluster.Client.ResourceV1().ResourceClaims(s.Name)
	claim, err := claims.Get(ctx, "shared", metav1.GetOptions{})
	if err != nil {
		return err
	}
	own := resourceapi.AllocatedDeviceStatus{Driver: s.Driver, Pool: s.Node(0), Device: "gpu-1", Conditions: []metav1.Condition{{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Tested", LastTransitionTime: metav1.Now(), Message: fmt.Sprint(number),
	}}}
	var devices []resourceapi.AllocatedDeviceStatus
	for _, device := range claim.Status.Devices {
		if device.Device != own.Device {
			devices = append(devices, device)
		}
	}
	claim.Status.Devices = append(devices, own)
	_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}
