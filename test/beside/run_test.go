package beside

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	nodes          = 20
	devicesPerNode = 8
	pods           = nodes * devicesPerNode
	// createAtATime is how many clients create pods.
	createAtATime = 20
)

// board is a space with devices and the schedulers that share them.
type board struct {
	*harness.Space
	// profiles are the schedulerNames, ours those of them that are ours.
	profiles []string
	ours     []*harness.Scheduler
	mutex    sync.Mutex // for ours, while schedulers are started
	played   int
}

func newBoard(t *testing.T, name string) *board {
	t.Helper()
	b := &board{Space: cluster.NewSpace(t, name, "", nodes)}
	for node := range nodes {
		b.Devices(node, harness.Numbered(devicesPerNode)...)
	}
	b.Create(builder.Claim("one", b.Want(1)).Template())
	return b
}

// run creates all pods, waits until they are bound, counts, and deletes them again.
func (b *board) run() figures { return b.play(func() {}) }

// play is run, with something that happens once all pods are created. What that starts has
// nothing in its metrics before.
func (b *board) play(created func()) figures {
	b.T.Helper()
	b.played++
	before := b.readMetrics()
	start := time.Now()
	b.createPods()
	created()
	b.Eventually("bind all pods", func(context.Context) error {
		if bound := b.Bound(); bound < pods {
			return fmt.Errorf("%d of %d pods are bound", bound, pods)
		}
		return nil
	})
	f := figures{bound: time.Since(start)}
	var detail string
	f.doubled, detail = b.doubled()
	f.add(before, b.readMetrics())
	b.T.Logf("run %d, %v: %s", b.played, b.profiles, f)
	switch {
	case len(b.ours) == 0:
	case f.doubled > 0:
		b.T.Log("doubled devices:", detail)
	default:
		b.CheckSettled()
	}
	b.deletePods()
	return f
}

// introduce has the schedulers allocate a claim each, one after the other, and once more. They
// learn from claims that others have allocated who takes part, when they allocate one
// themselves; so what the first round has made is there until the second has been through.
func (b *board) introduce() {
	b.T.Helper()
	for round := range 2 {
		for i, profile := range b.profiles {
			pod := b.Pod(fmt.Sprintf("hello-%d-%s", round, profile), builder.FromTemplate("one"))
			pod.Spec.SchedulerName = profile
			b.Create(pod)
			b.Eventually("bind the pod of "+profile, func(context.Context) error {
				if bound := b.Bound(); bound < round*len(b.profiles)+i+1 {
					return fmt.Errorf("%d pods are bound", bound)
				}
				return nil
			})
		}
	}
	b.deletePods()
}

// createPods creates the pods of all schedulers in turn.
func (b *board) createPods() {
	b.T.Helper()
	errs := make([]error, pods)
	var creators sync.WaitGroup
	for first := range createAtATime {
		creators.Go(func() {
			for i := first; i < pods; i += createAtATime {
				pod := b.Pod(fmt.Sprintf("run-%d-%03d", b.played, i), builder.FromTemplate("one"))
				pod.Spec.SchedulerName = b.profiles[i%len(b.profiles)]
				errs[i] = b.Cluster.Objects.Create(b.T.Context(), b.Name, pod)
			}
		})
	}
	creators.Wait()
	require.NoError(b.T, errors.Join(errs...))
}

// doubled counts the devices that are allocated to more than one claim, and says which.
func (b *board) doubled() (count int, detail string) {
	b.T.Helper()
	claims, err := b.Cluster.Client.ResourceV1().ResourceClaims(b.Name).List(b.T.Context(), metav1.ListOptions{})
	require.NoError(b.T, err)
	holders := make(map[string][]string)
	for _, claim := range claims.Items {
		require.NotNil(b.T, claim.Status.Allocation, "claim %s of a bound pod", claim.Name)
		if len(claim.Status.ReservedFor) == 0 && b.Unchecked {
			continue // Two unchanged kube-schedulers lose that as well.
		}
		require.NotEmpty(b.T, claim.Status.ReservedFor, "claim %s of a bound pod", claim.Name)
		pod, err := b.KnownPod(claim.Status.ReservedFor[0].Name)
		require.NoError(b.T, err)
		for _, result := range claim.Status.Allocation.Devices.Results {
			device := result.Pool + "/" + result.Device
			holders[device] = append(holders[device], fmt.Sprintf("%s of %s", pod.Name, pod.Spec.SchedulerName))
		}
	}
	for device, pods := range holders {
		if len(pods) > 1 {
			count++
			detail += fmt.Sprintf("\n  %s: %s", device, strings.Join(pods, ", "))
		}
	}
	return count, detail
}

// deletePods deletes all pods and waits until they and their claims are gone.
func (b *board) deletePods() {
	b.T.Helper()
	ctx := b.T.Context()
	require.NoError(b.T, b.Cluster.Client.CoreV1().Pods(b.Name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	b.Eventually("see all pods and claims go", func(ctx context.Context) error {
		if left := b.Pods(); len(left) > 0 {
			return fmt.Errorf("%d pods are left", len(left))
		}
		claims, err := b.Cluster.Client.ResourceV1().ResourceClaims(b.Name).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil && len(claims.Items) > 0 {
			err = errors.New("there are claims left")
		}
		return err
	})
}
