package hostile

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

const (
	tenantNodes = 40
	// An ordinary pod comes so often, for so long.
	pace, span = 250 * time.Millisecond, 10 * time.Second
	// meanBefore bounds how many attempts for pods of the other tenant come in the mean before the next one for an ordinary pod that
	// waits, which hardly depends on how fast the machine is. Without turns, it is one for each of these pods.
	meanBefore = 10
)

// TestOthersPodsWhileObjectsArrive creates many objects of one namespace at once that take long to
// judge, and meanwhile ordinary pods of another namespace. None of the former fits.
func TestOthersPodsWhileObjectsArrive(t *testing.T) {
	harness.Long(t, "tenants make thousands of objects")
	s := newStreamOn(t, "tenants", tenantNodes, 8)
	t.Log(s.arrivals("none", nil))
	for _, attack := range []struct {
		name   string
		claims int
		claim  func(i int) *builder.RequestBuilder
	}{
		{"plain", 300, func(int) *builder.RequestBuilder { return s.space.Want(9) }}, // Tried again with each device that is given back.
		{"alternatives", 60, nil},
		{"costly", 300, func(i int) *builder.RequestBuilder { return s.space.Want(1, "!"+costly(44, i)) }},
		{"distinct", 1000, func(i int) *builder.RequestBuilder {
			return s.space.Want(1, fmt.Sprintf("%s == %d", s.space.Attribute("index"), 1000+i))
		}},
	} {
		attacker := newAttacker(s.space, attack.name)

		report := s.arrivals(attack.name, func() {
			attacker.create(attack.claims, func(i int) *resourceapi.ResourceClaim {
				name := fmt.Sprintf("c-%04d", i)
				if attack.claim == nil {
					return builder.Claim(name, s.manyAlternatives(i)...).Obj()
				}
				return builder.Claim(name, attack.claim(i)).Obj()
			})
		})
		t.Log(report)
		attacker.remove()
		assert.LessOrEqual(t, mean(report.before), float64(meanBefore), attack.name)
	}
	require.NoError(t, s.scheduler.Err(), "the scheduler lives")
}

// manyAlternatives are as many requests with as many alternatives as a claim may have, none of which
// are like others.
func (s *stream) manyAlternatives(claim int) (requests []*builder.RequestBuilder) {
	for i := range 32 {
		var alternatives []*builder.RequestBuilder
		for j := range 8 {
			salt := (claim*32+i)*8 + j
			alternatives = append(alternatives, s.space.Want(1, fmt.Sprintf("%s < %d", s.space.Attribute("index"), 8+salt)).Named(fmt.Sprintf("s%d", j)))
		}
		requests = append(requests, builder.FirstAvailable(fmt.Sprintf("r%d", i), alternatives...))
	}
	return requests
}

// attacker creates objects in a namespace of its own.
type attacker struct {
	space     *harness.Space
	namespace string
}

func newAttacker(space *harness.Space, name string) *attacker {
	a := &attacker{space: space, namespace: space.Name + "-" + name}
	t := space.T
	_, err := cluster.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, scenario.DefaultAccounts(cluster.Client)(t.Context(), []string{a.namespace}))
	return a
}

// create creates claims, each with a pod, as fast as the API server takes them.
func (a *attacker) create(claims int, claim func(i int) *resourceapi.ResourceClaim) {
	const writers = 16
	errs := make([]error, writers)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := w; i < claims && errs[w] == nil; i += writers {
				errs[w] = a.createOne(claim(i))
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		require.NoError(a.space.T, err)
	}
}

func (a *attacker) createOne(claim *resourceapi.ResourceClaim) error {
	ctx := a.space.T.Context()
	pod := a.space.PodOn(claim.Name, map[string]string{fleet.NodePoolLabel: a.space.Name}, builder.Uses(claim.Name))
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	if err := cluster.Objects.Create(ctx, a.namespace, claim); err != nil {
		return err
	}
	return cluster.Objects.Create(ctx, a.namespace, pod)
}

// remove deletes the objects and waits until the pods are gone.
func (a *attacker) remove() {
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	a.space.Eventually("delete the pods of "+a.namespace, func(ctx context.Context) error {
		if err := cluster.Client.CoreV1().Pods(a.namespace).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
			return err // It may take longer than the server allows a request.
		}
		if err := cluster.Client.ResourceV1().ResourceClaims(a.namespace).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
			return err
		}
		pods, err := cluster.Client.CoreV1().Pods(a.namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			return fmt.Errorf("there are %d", len(pods.Items))
		}
		return err
	})
}

// arrivals says how long ordinary pods waited that came at a steady pace.
type arrivals struct {
	input    string
	waits    []time.Duration
	attempts attempts
	// before is how many attempts for pods of others came before the first one for each pod, since the scheduler saw it, and queued how
	// long that took.
	before []int
	queued []time.Duration
}

// arrivals creates ordinary pods at a steady pace while some work is done, and for some time
// from its beginning, and waits until all are bound.
func (s *stream) arrivals(input string, work func()) arrivals {
	t := s.space.T
	t.Helper()
	s.waits = nil
	before := s.readAttempts()
	var all sync.WaitGroup
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		if work != nil {
			work()
		}
	}()
	errs := make([]error, span/pace)
	for i := range errs {
		all.Go(func() { errs[i] = s.one(fmt.Sprintf("%s-%d", input, i)) })
		time.Sleep(pace)
	}
	<-worked
	all.Wait()
	for _, err := range errs {
		require.NoError(t, err, "with input %s", input)
	}
	a := arrivals{input: input, waits: s.waits, attempts: s.readAttempts().since(before)}
	a.before, a.queued = s.triedBefore(input)
	return a
}

// Lines of the scheduler's log, with the time within the day.
var (
	arrived = regexp.MustCompile(`^I\d{4} (\S+) .*"Add event for unscheduled pod" pod="(.*?)"`)
	tried   = regexp.MustCompile(`^I\d{4} (\S+) .*"Attempting to schedule pod" pod="(.*?)"`)
)

// triedBefore counts, for each ordinary pod that came with an input, the attempts for pods of other namespaces from when the scheduler saw it until
// its first attempt, and how long that took.
func (s *stream) triedBefore(input string) (counts []int, queued []time.Duration) {
	log, err := os.ReadFile(s.scheduler.LogFile())
	require.NoError(s.space.T, err)
	type arrival struct {
		others int
		at     time.Time
	}
	ordinary, others, came := s.space.Name+"/"+input+"-", 0, make(map[string]arrival)
	for line := range strings.Lines(string(log)) {
		if match := arrived.FindStringSubmatch(line); match != nil && strings.HasPrefix(match[2], ordinary) {
			came[match[2]] = arrival{others, s.timeOf(match[1])}
		} else if match := tried.FindStringSubmatch(line); match != nil {
			if !strings.HasPrefix(match[2], s.space.Name+"/") {
				others++
			} else if arrival, waits := came[match[2]]; waits {
				counts = append(counts, others-arrival.others)
				queued = append(queued, s.timeOf(match[1]).Sub(arrival.at))
				delete(came, match[2])
			}
		}
	}
	require.Len(s.space.T, counts, int(span/pace), "each pod arrived and was tried, by the scheduler's log")
	return counts, queued
}

func (s *stream) timeOf(text string) time.Time {
	at, err := time.Parse("15:04:05.000000", text)
	require.NoError(s.space.T, err)
	return at
}

func mean[T int | time.Duration](values []T) float64 {
	sum := T(0)
	for _, value := range values {
		sum += value
	}
	return float64(sum) / float64(len(values))
}

func inMilliseconds(values []time.Duration) string {
	return fmt.Sprintf("%s/%s", time.Duration(mean(values)).Round(time.Millisecond), slices.Max(values).Round(time.Millisecond))
}

func (a arrivals) String() string {
	return fmt.Sprintf("report: input=%s pods=%d wait=%s queued=%s attemptsBefore=%.1f/%d (mean/most) schedulerCPU=%.1fs %s",
		a.input, len(a.waits), inMilliseconds(a.waits), inMilliseconds(a.queued), mean(a.before), slices.Max(a.before), a.attempts.cpu, a.attempts)
}
