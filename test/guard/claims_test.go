package guard

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// tenant is a space whose claims are allocated by the test itself, as a scheduler would.
type tenant struct{ *harness.Space }

// newTenant makes a space with one node that has devices gpu-0, gpu-1 and so on.
func newTenant(t *testing.T, name string, devices int) *tenant {
	t.Helper()
	s := &tenant{cluster.NewSpace(t, name, "", 1)}
	s.Devices(0, harness.Numbered(devices)...)
	return s
}

// claims creates claims.
func (s *tenant) claims(names ...string) {
	s.T.Helper()
	for _, name := range names {
		s.Create(builder.Claim(name, s.Want(1)).Obj())
	}
}

// allocation is one of a device.
func (s *tenant) allocation(device string) *resourceapi.AllocationResult {
	return &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: s.Driver, Pool: s.Node(0), Device: device}},
	}}
}

// allocate gives a claim a device, once.
func (s *tenant) allocate(ctx context.Context, name, device string) error {
	return s.write(ctx, name, s.allocation(device))
}

// release takes a claim's device away.
func (s *tenant) release(ctx context.Context, name string) error { return s.write(ctx, name, nil) }

func (s *tenant) write(ctx context.Context, name string, allocation *resourceapi.AllocationResult) error {
	claims := cluster.Client.ResourceV1().ResourceClaims(s.Name)
	claim, err := claims.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	claim.Status.Allocation = allocation
	_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

// stored is a claim as the server has it.
func (s *tenant) stored(name string) *resourceapi.ResourceClaim {
	s.T.Helper()
	claim, err := cluster.Client.ResourceV1().ResourceClaims(s.Name).Get(s.T.Context(), name, metav1.GetOptions{})
	require.NoError(s.T, err)
	return claim
}

// isDenied is nil if the guard has denied a device because another claim has it.
func isDenied(err error) error {
	switch {
	case err == nil:
		return errors.New("it was allowed")
	case strings.Contains(err.Error(), "holds it by now"):
		return nil
	default:
		return err
	}
}

// guarded waits until API servers ask the guard that decides: they learn of the configuration with a
// delay.
func (s *tenant) guarded() {
	s.T.Helper()
	s.claims("holder", "probe")
	s.Eventually("allocate a device", func(ctx context.Context) error { return s.allocate(ctx, "holder", "gpu-0") })
	s.Eventually("have the guard deny a device that is in use", func(ctx context.Context) error {
		err := s.allocate(ctx, "probe", "gpu-0")
		if err == nil { // Nobody was asked.
			require.NoError(s.T, s.release(ctx, "probe"))
		}
		return isDenied(err)
	})
	require.NoError(s.T, s.release(s.T.Context(), "holder"))
}
