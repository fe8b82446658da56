package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

const (
	nodes          = 5
	devicesPerNode = 8
	// pods of a wave want all devices.
	pods = nodes * devicesPerNode
	// qps is how many requests a second a kube-scheduler may send.
	qps = 200
)

// burst is a space with devices that several schedulers want at the same time, wave after wave.
type burst struct {
	*harness.Space
	profiles []string
	ours     []*harness.Scheduler
	waves    int
}

func newBurst(t *testing.T, name string) *burst {
	t.Helper()
	b := &burst{Space: cluster.NewSpace(t, name, "", nodes)}
	for node := range nodes {
		b.Devices(node, harness.Numbered(devicesPerNode)...)
	}
	b.Create(builder.Claim("one", b.Want(1)).Template())
	return b
}

// startStock adds an unchanged kube-scheduler for the pods of a scheduler name.
func (b *burst) startStock(profile string) {
	b.T.Helper()
	stock, err := cluster.StartStockSchedulerFor(b.T.Context(), b.Name+"-"+profile, profile, qps)
	require.NoError(b.T, err)
	b.profiles = append(b.profiles, profile)
	b.stopAtEnd(stock.Process)
}

// startOurs adds a scheduler of ours.
func (b *burst) startOurs(profile string) {
	b.T.Helper()
	b.ours = append(b.ours, b.StartScheduler(harness.SchedulerOptions{Profile: profile}))
	b.profiles = append(b.profiles, profile)
}

func (b *burst) stopAtEnd(process *scheduler.Process) {
	b.T.Cleanup(func() {
		require.NoError(b.T, process.Err(), "the scheduler ended although nobody asked it to")
		require.NoError(b.T, process.Stop())
	})
}

// wave creates a pod for each device, for the schedulers in turn, waits until all are bound, has a look
// and deletes them.
func (b *burst) wave(bound func()) {
	b.T.Helper()
	b.waves++
	began := time.Now()
	const atATime = 20
	errs := make([]error, pods)
	var creators sync.WaitGroup
	for first := range atATime {
		creators.Go(func() {
			for i := first; i < pods; i += atATime {
				pod := b.Pod(fmt.Sprintf("wave-%d-%03d", b.waves, i), builder.FromTemplate("one"))
				pod.Spec.SchedulerName = b.profiles[i%len(b.profiles)]
				errs[i] = cluster.Objects.Create(b.T.Context(), b.Name, pod)
			}
		})
	}
	creators.Wait()
	require.NoError(b.T, errors.Join(errs...))
	b.Eventually("bind all pods", func(context.Context) error {
		if n := b.Bound(); n < pods {
			return fmt.Errorf("%d of %d pods are bound", n, pods)
		}
		return nil
	})
	b.T.Logf("wave %d: all pods bound after %s", b.waves, time.Since(began).Round(time.Millisecond))
	bound()
	b.deletePods()
}

// deletePods deletes all pods and waits until they and their claims are gone.
func (b *burst) deletePods() {
	b.T.Helper()
	require.NoError(b.T, cluster.Client.CoreV1().Pods(b.Name).DeleteCollection(b.T.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	b.Eventually("see all pods and claims go", func(ctx context.Context) error {
		if left := b.Pods(); len(left) > 0 {
			return fmt.Errorf("%d pods are left", len(left))
		}
		claims, err := cluster.Client.ResourceV1().ResourceClaims(b.Name).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil && len(claims.Items) > 0 {
			err = errors.New("there are claims left")
		}
		return err
	})
}

// wavesWhile has wave follow wave until something that takes its time is done, and one after that.
func (b *burst) wavesWhile(bound func(), something func() error) {
	b.T.Helper()
	done := make(chan error, 1)
	go func() { done <- something() }()
	for last := false; !last; {
		select {
		case err := <-done:
			require.NoError(b.T, err)
			last = true
		default:
		}
		b.wave(bound)
	}
}

// shared are devices that more than one bound pod has, by "pool/device", with the schedulers of those pods.
func (b *burst) shared() map[string][]string {
	b.T.Helper()
	users := make(map[string][]string)
	for _, pod := range b.Pods() {
		for _, claim := range b.fresh(pod) {
			for _, result := range claim.Status.Allocation.Devices.Results {
				device := result.Pool + "/" + result.Device
				users[device] = append(users[device], pod.Spec.SchedulerName)
			}
		}
	}
	for device := range users {
		if len(users[device]) < 2 {
			delete(users, device)
		}
	}
	return users
}

// fresh are the claims of a bound pod as the server has them.
func (b *burst) fresh(pod *corev1.Pod) []*resourceapi.ResourceClaim {
	b.T.Helper()
	var claims []*resourceapi.ResourceClaim
	for _, status := range pod.Status.ResourceClaimStatuses {
		claim, err := cluster.Client.ResourceV1().ResourceClaims(b.Name).Get(b.T.Context(), *status.ResourceClaimName, metav1.GetOptions{})
		require.NoError(b.T, err)
		require.NotNil(b.T, claim.Status.Allocation, "claim %s of bound pod %s", claim.Name, pod.Name)
		claims = append(claims, claim)
	}
	return claims
}
