package election

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
)

// decider is a guard that is a candidate, and decides, while it is allowed to.
type decider struct{ allowed atomic.Bool }

func (d *decider) Candidate() error {
	if !d.allowed.Load() {
		return errors.New("the scheduler does not lead")
	}
	return nil
}

func (d *decider) TakeOver(context.Context, time.Time) error { return nil }
func (d *decider) Decides() bool                             { return d.allowed.Load() }
func (d *decider) Lead(context.Context)                      {}

// TestOnlyCandidatesGetTheLease: a guard in a scheduler stands for election only while that leads, and
// has looked at the Lease before: if its holder has died with the scheduler that led, nothing is
// waited for once more.
func TestOnlyCandidatesGetTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "guards", Name: LeaseName},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("dead"), LeaseDurationSeconds: ptr.To[int32](15),
				AcquireTime: ptr.To(metav1.NowMicro()), RenewTime: ptr.To(metav1.NowMicro())},
		})
		holder := func() string {
			lease, err := client.CoordinationV1().Leases("guards").Get(t.Context(), LeaseName, metav1.GetOptions{})
			require.NoError(t, err)
			return ptr.Deref(lease.Spec.HolderIdentity, "")
		}
		guard := &decider{}
		lease := &lease.Lease{}
		standing := &Election{
			Leases: client.CoordinationV1(), Identity: "us", Mode: "Enforce", Lease: lease,
			Guard: guard,
			Config: componentbaseconfig.LeaderElectionConfiguration{
				ResourceNamespace: "guards", ResourceName: LeaseName, LeaseDuration: metav1.Duration{Duration: 15 * time.Second},
				RenewDeadline: metav1.Duration{Duration: 10 * time.Second}, RetryPeriod: metav1.Duration{Duration: 2 * time.Second},
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- standing.Run(ctx) }()

		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, "dead", holder())
		require.Error(t, lease.Leads())
		guard.allowed.Store(true)
		time.Sleep(5 * time.Second) // The lease has long expired: the next look is enough.
		synctest.Wait()
		require.Equal(t, "us", holder())
		require.NoError(t, lease.Leads())
		guard.allowed.Store(false)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		require.Empty(t, holder(), "it was released")
		require.Error(t, lease.Leads())
		cancel()
		require.NoError(t, <-done)
	})
}
