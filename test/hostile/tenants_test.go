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

	"github.com/quartermaster-dra/quartermaster/internal/builder"
	"github.com/quartermaster-dra/quartermaster/internal/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/internal/playground/scenario"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	tenantNodes = 40
	// An ordinary pod comes so often, for so long.
	pace, span = 250 * time.Millisecond, 20 * time.Second
	// mostBefore bounds how many attempts for pods of the other tenant come before the next one for an ordinary pod that waits,
	// which does not depend on how fast the machine is. Without turns, it is one for each of these pods.
	mostBefore = 20
)

// TestOthersPodsWhileObjectsArrive creates many objects of one namespace at once that take long to
// judge, and meanwhile ordinary pods of another namespace. None of the former fits.
func TestOthersPodsWhileObjectsArrive(t *testing.T) {
	s := newStreamOn(t, "tenants", tenantNodes, 8)
	t.Log(s.arrivals("none", nil))
	for _, attack := range []struct {
		name   string
		claims int
		claim  func(i int) *builder.RequestBuilder
	}{
		{"plain", 300, func(int) *builder.RequestBuilder { return s.space.Want(9) }},
		{"alternatives", 60, nil},
		{"costly", 300, func(i int) *builder.RequestBuilder { return s.space.Want(1, "!"+costly(44, i)) }},
		{"distinct", 2000, func(i int) *builder.RequestBuilder {
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
		assert.LessOrEqual(t, slices.Max(report.before), mostBefore, attack.name)
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
	// before is how many pods of others were tried before each pod, since it came and since the last one of its namespace was tried.
	before []int
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
	return arrivals{input: input, waits: s.waits, attempts: s.readAttempts().since(before), before: s.triedBefore(input)}
}

// Lines of the scheduler's log.
var (
	arrived = regexp.MustCompile(`"Add event for unscheduled pod" pod="(.*?)"`)
	tried   = regexp.MustCompile(`"Attempting to schedule pod" pod="(.*?)"`)
)

// triedBefore counts, for each ordinary pod that came with an input, the attempts for pods of other namespaces before its first attempt, since
// it came and since the last attempt for an ordinary pod.
func (s *stream) triedBefore(input string) (counts []int) {
	log, err := os.ReadFile(s.scheduler.LogFile())
	require.NoError(s.space.T, err)
	ordinary, others, last, since := s.space.Name+"/"+input+"-", 0, 0, make(map[string]int)
	for line := range strings.Lines(string(log)) {
		if match := arrived.FindStringSubmatch(line); match != nil && strings.HasPrefix(match[1], ordinary) {
			since[match[1]] = others
		} else if match := tried.FindStringSubmatch(line); match != nil {
			if !strings.HasPrefix(match[1], s.space.Name+"/") {
				others++
				continue
			}
			if came, waits := since[match[1]]; waits {
				counts = append(counts, others-max(came, last))
				delete(since, match[1])
			}
			last = others
		}
	}
	require.Len(s.space.T, counts, int(span/pace), "each pod arrived and was tried, by the scheduler's log")
	return counts
}

func (a arrivals) mean() time.Duration {
	var sum time.Duration
	for _, wait := range a.waits {
		sum += wait
	}
	return sum / time.Duration(len(a.waits))
}

func (a arrivals) longest() time.Duration { return slices.Max(a.waits) }

func (a arrivals) String() string {
	sum := 0
	for _, count := range a.before {
		sum += count
	}
	return fmt.Sprintf("report: input=%s pods=%d meanWait=%s longestWait=%s attemptsBefore=%.1f mostAttemptsBefore=%d schedulerCPU=%.1fs %s",
		a.input, len(a.waits), a.mean().Round(time.Millisecond), a.longest().Round(time.Millisecond),
		float64(sum)/float64(len(a.before)), slices.Max(a.before), a.attempts.cpu, a.attempts)
}
