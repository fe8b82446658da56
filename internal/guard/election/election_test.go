package election

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
)

// leaseServer has one Lease, and refuses writes that do not rest on its newest version.
type leaseServer struct {
	coordinationclient.LeaseInterface
	mutex sync.Mutex
	lease *coordinationv1.Lease
	// revision is the newest resourceVersion.
	revision int
	renewed  chan struct{} // gets something at each write, if there is room
}

// newLeaseServer returns a server with a Lease that has no holder and is old enough.
func newLeaseServer() *leaseServer {
	s := &leaseServer{renewed: make(chan struct{}, 1)}
	s.made(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: LeaseName}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("")}})
	s.lease.Annotations = map[string]string{OutlastedAnnotation: string(s.lease.UID)}
	return s
}

// made stores a Lease that was not there.
func (s *leaseServer) made(lease *coordinationv1.Lease) *coordinationv1.Lease {
	lease = lease.DeepCopy()
	lease.UID = uuid.NewUUID()
	return s.put(lease)
}

// deletes deletes the Lease.
func (s *leaseServer) deletes() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.lease = nil
}

var leaseResource = coordinationv1.Resource("leases")

func (s *leaseServer) Leases(string) coordinationclient.LeaseInterface { return s }

func (s *leaseServer) Get(_ context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.lease == nil {
		return nil, apierrors.NewNotFound(leaseResource, name)
	}
	return s.lease.DeepCopy(), nil
}

func (s *leaseServer) Create(_ context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.lease != nil {
		return nil, apierrors.NewAlreadyExists(leaseResource, lease.Name)
	}
	return s.made(lease), nil
}

func (s *leaseServer) Update(_ context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.lease == nil {
		return nil, apierrors.NewNotFound(leaseResource, lease.Name)
	}
	if s.lease.ResourceVersion != lease.ResourceVersion {
		return nil, apierrors.NewConflict(leaseResource, lease.Name, errors.New("it has changed"))
	}
	return s.put(lease), nil
}

func (s *leaseServer) put(lease *coordinationv1.Lease) *coordinationv1.Lease {
	s.lease = lease.DeepCopy()
	s.revision++
	s.lease.ResourceVersion = strconv.Itoa(s.revision)
	select {
	case s.renewed <- struct{}{}:
	default:
	}
	return s.lease.DeepCopy()
}

// holds sets the holder, "" for none.
func (s *leaseServer) holds(holder string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.lease.Spec.HolderIdentity = ptr.To(holder)
	s.put(s.lease)
}

func (s *leaseServer) annotations() map[string]string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.lease == nil {
		return nil
	}
	return s.lease.DeepCopy().Annotations
}

// candidate is a guard that stands for election.
type candidate struct {
	*Election
	mutex     sync.Mutex
	decidesIn time.Time
	takeovers int
	tenures   int // how often Lead was called
	fails     error
}

func newCandidate(s *leaseServer, identity string) *candidate {
	c := &candidate{Election: &Election{
		Leases: s, Identity: identity, Mode: "Enforce", Lease: &lease.Lease{},
		Config: componentbaseconfig.LeaderElectionConfiguration{
			ResourceNamespace: "guards", ResourceName: LeaseName,
			LeaseDuration: metav1.Duration{Duration: time.Minute},
			RenewDeadline: metav1.Duration{Duration: 40 * time.Second},
			RetryPeriod:   metav1.Duration{Duration: 5 * time.Millisecond},
		},
	}}
	c.Guard = c
	return c
}

func (c *candidate) Candidate() error { return nil }

func (c *candidate) TakeOver(_ context.Context, tenure time.Time) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.takeovers++; c.fails != nil {
		return c.fails
	}
	c.decidesIn = tenure
	return nil
}

func (c *candidate) Decides() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.Lease.Leads() == nil && !c.decidesIn.IsZero() && c.decidesIn.Equal(c.Lease.Since())
}

func (c *candidate) Lead(context.Context) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.tenures++
}

// run has the candidate take part until what is returned is called, or the test ends.
func (c *candidate) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return stop
}

func (c *candidate) counted() (takeovers, tenures int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.takeovers, c.tenures
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 3*time.Minute, time.Millisecond, what)
}

func TestAnnounces(t *testing.T) {
	t.Parallel()
	s := newLeaseServer()
	c := newCandidate(s, "a")
	c.fails = errors.New("not so far")
	stop := c.run(t)
	eventually(t, "a handover that is tried again", func() bool { n, _ := c.counted(); return n > 1 })
	for range 3 { // Also as it is renewed.
		<-s.renewed
		require.Equal(t, "Enforce", s.annotations()[ModeAnnotation])
		require.NotContains(t, s.annotations(), DecidesAnnotation)
	}
	c.mutex.Lock()
	c.fails = nil
	c.mutex.Unlock()
	eventually(t, "the decider's name", func() bool { return s.annotations()[DecidesAnnotation] == "a" })
	stop()
	require.Empty(t, ptr.Deref(s.lease.Spec.HolderIdentity, ""), "it is given back")
	require.NotContains(t, s.annotations(), DecidesAnnotation)
	require.Error(t, c.Lease.Leads())
}

func TestOneOfTwoDecides(t *testing.T) {
	t.Parallel()
	s := newLeaseServer()
	a, b := newCandidate(s, "a"), newCandidate(s, "b")
	stop := a.run(t)
	eventually(t, "a's name", func() bool { return s.annotations()[DecidesAnnotation] == "a" })
	b.Mode = "Warn"
	b.run(t)
	for range 5 {
		<-s.renewed
	}
	require.False(t, b.Decides())
	require.Zero(t, b.takeovers)
	stop()
	eventually(t, "b's name", func() bool { return s.annotations()[DecidesAnnotation] == "b" })
	require.Equal(t, "Warn", s.annotations()[ModeAnnotation])
	require.False(t, a.Decides())
}

// While a process is paused, another one may take the Lease and release it. The elector then continues, but the
// allocations approved meanwhile are unknown.
func TestTakesOverAgainAfterSomebodyElse(t *testing.T) {
	t.Parallel()
	s := newLeaseServer()
	c := newCandidate(s, "a")
	c.run(t)
	eventually(t, "a's name", func() bool { return s.annotations()[DecidesAnnotation] == "a" })
	takeovers, tenures := c.counted()
	require.Equal(t, 1, takeovers)
	require.Equal(t, 1, tenures)

	s.mutex.Lock() // Nothing is renewed between the two.
	s.lease.Spec.HolderIdentity = ptr.To("b")
	s.put(s.lease)
	s.lease.Spec.HolderIdentity = ptr.To("")
	s.put(s.lease)
	s.mutex.Unlock()
	eventually(t, "a second handover", func() bool { n, _ := c.counted(); return n == 2 })
	eventually(t, "a decision", c.Decides)
	takeovers, tenures = c.counted()
	require.Equal(t, 2, takeovers)
	require.Equal(t, 1, tenures, "the elector has noticed nothing, which is what this is about")

	s.holds("b")
	eventually(t, "the loss", func() bool { return !c.Decides() })
	s.holds("")
	eventually(t, "a third handover", func() bool { n, _ := c.counted(); return n == 3 })
}

func TestAnnounceIsNotForTheLeaseOfOthers(t *testing.T) {
	t.Parallel()
	guard := &decider{}
	guard.allowed.Store(true)
	a := &announcer{identity: "a", mode: "Enforce", guard: guard, age: &age{}}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{DecidesAnnotation: "b", "other": "kept"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("")},
	}
	require.Equal(t, map[string]string{ModeAnnotation: "Enforce", "other": "kept"}, a.announce(lease).Annotations)
	require.Equal(t, "b", lease.Annotations[DecidesAnnotation], "what was passed in is not changed")
	lease.Spec.HolderIdentity = ptr.To("a")
	require.Equal(t, "a", a.announce(lease).Annotations[DecidesAnnotation])
	guard.allowed.Store(false)
	require.NotContains(t, a.announce(lease).Annotations, DecidesAnnotation)
}
