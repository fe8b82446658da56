package restarts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	// createdAtATime is the number of pods that are being created at any time.
	createdAtATime = 10
	// sharers is the number of pods that use one shared claim.
	sharers = 4
)

// burst is a number of pods of three kinds: of ten, eight have a generated claim for
// one device, one has two such claims, and one shares a claim with others.
type burst struct {
	space  *harness.Space
	prefix string
	pods   int
}

// newBurst prepares a burst: what the pods need except for devices.
func newBurst(s *harness.Space, prefix string, pods int) burst {
	s.T.Helper()
	b := burst{space: s, prefix: prefix, pods: pods}
	for i := range b.sharedClaims() {
		s.Create(builder.Claim(b.sharedClaim(i), s.Want(1)).Obj())
	}
	return b
}

// createTemplates creates the templates that all bursts of a space use.
func createTemplates(s *harness.Space) {
	s.T.Helper()
	for _, name := range []string{"one", "another"} {
		s.Create(builder.Claim(name, s.Want(1)).Template())
	}
}

func (b burst) sharedClaims() int { return (b.pods/10 + sharers - 1) / sharers }

func (b burst) sharedClaim(i int) string { return fmt.Sprintf("%s-shared-%d", b.prefix, i) }

// devices is how many devices the pods need.
func (b burst) devices() int { return 8*b.pods/10 + 2*b.pods/10 + b.sharedClaims() }

// writes is how many writes of the scheduler progress sees if all goes well: two for
// each claim's first consumer, one for each further one, and one for each binding.
func (b burst) writes() int {
	consumers := 8*b.pods/10 + 2*b.pods/10 + b.pods/10
	return b.devices() + consumers + b.pods
}

func (b burst) uses(i int) []corev1.PodResourceClaim {
	switch i % 10 {
	case 0:
		return builder.Uses(b.sharedClaim(i / 10 / sharers))
	case 1:
		return append(builder.FromTemplate("one"), builder.FromTemplate("another")...)
	default:
		return builder.FromTemplate("one")
	}
}

// create creates all pods. It can be called from any goroutine.
func (b burst) create(ctx context.Context) error {
	errs := make([]error, b.pods)
	var creators sync.WaitGroup
	for first := range createdAtATime {
		creators.Go(func() {
			for i := first; i < b.pods; i += createdAtATime {
				pod := b.space.Pod(fmt.Sprintf("%s-%03d", b.prefix, i), b.uses(i))
				errs[i] = b.space.Cluster.Objects.Create(ctx, b.space.Name, pod)
			}
		})
	}
	creators.Wait()
	return errors.Join(errs...)
}

// createWithClaims creates all pods and waits until their claims are generated. If the API
// server goes away in the middle of that, kube-controller-manager may make a second claim
// for a pod and put it into the pod's status after the first one was used.
func (b burst) createWithClaims() {
	b.space.T.Helper()
	require.NoError(b.space.T, b.create(b.space.T.Context()))
	b.space.Eventually("have the claims of all pods generated", func(context.Context) error {
		known := 0
		for _, pod := range b.space.Pods() {
			if !strings.HasPrefix(pod.Name, b.prefix+"-") {
				continue
			}
			known++
			if _, err := b.space.ClaimsOf(pod); err != nil {
				return err
			}
		}
		if known != b.pods {
			return fmt.Errorf("%d of %d pods are known", known, b.pods)
		}
		return nil
	})
}

// runAll waits until all pods of the space run with their claims.
func runAll(s *harness.Space, count int) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("run all %d pods", count), func(context.Context) error {
		var open []error
		pods := s.Pods()
		for _, pod := range pods {
			if err := s.Runs(pod); err != nil {
				open = append(open, err)
			}
		}
		if len(open) > 0 {
			return fmt.Errorf("%d of %d pods do not run, for instance: %w", len(open), len(pods), open[0])
		}
		if len(pods) != count {
			return fmt.Errorf("there are %d pods", len(pods))
		}
		return nil
	})
}

// newDevicesFor publishes devices for bursts on the nodes of a space, as many on
// each, and more than nodes are left when all pods run. So even the last pod that wants
// two devices finds a node that has both. It returns how many are left over.
func newDevicesFor(s *harness.Space, nodes int, bursts ...burst) int {
	s.T.Helper()
	needed := 0
	for _, b := range bursts {
		needed += b.devices()
	}
	perNode := (needed+nodes)/nodes + 1
	for node := range nodes {
		s.Devices(node, harness.Numbered(perNode)...)
	}
	return perNode*nodes - needed
}

// finish waits until all pods of the bursts run, and shows that nothing leaked.
func finish(s *harness.Space, left int, bursts ...burst) (pods int) {
	s.T.Helper()
	for _, b := range bursts {
		pods += b.pods
	}
	runAll(s, pods)
	require.Equal(s.T, left, s.NothingLeaked(), "the devices that the pods do not need have to be free")
	return pods
}

// rounded is a duration for the log.
func rounded(begin time.Time) time.Duration { return time.Since(begin).Round(10 * time.Millisecond) }
