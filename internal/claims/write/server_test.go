package write

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"
)

// server answers requests for one ResourceClaim like the API server does, as far
// as it matters here: optimistic locking by resourceVersion and UID, separate
// writes of status and the rest. (The tracker of the fake clientset checks
// neither.) It demands that every write names the field manager. It records requests
// and can be told to misbehave.
type server struct {
	t     *testing.T
	mutex sync.Mutex
	// claim is nil while there is none.
	claim *resourceapi.ResourceClaim
	// requests lists "get", "create", "update", "update status" and "delete", in order,
	// also those that failed.
	requests []string
	// bodies are the objects sent with the writes, in order.
	bodies []*resourceapi.ResourceClaim
	faults []fault
	// drop changes an allocation as it is stored, like a server that does not know all
	// of its fields.
	drop func(*resourceapi.AllocationResult)
	// forgetFinalizers drops finalizers in updates, like a webhook could.
	forgetFinalizers bool
}

// fault changes the answer to one request.
type fault struct {
	// on is the kind of request that it applies to; the fault waits for one.
	on string
	// before runs before the request is processed and makes another client's change. It works on
	// the stored claim (which may be nil) and returns the new one.
	before func(*resourceapi.ResourceClaim) *resourceapi.ResourceClaim
	// applied says whether the request takes effect despite err.
	applied bool
	// err is the answer, nil for the normal one.
	err error
}

var claimsResource = resourceapi.SchemeGroupVersion.WithResource("resourceclaims").GroupResource()

func startServer(t *testing.T, claim *resourceapi.ResourceClaim, faults ...fault) (*server, *fake.Clientset) {
	s := &server{t: t, faults: faults}
	if claim != nil {
		s.claim = claim.DeepCopy()
	}
	client := fake.NewClientset(existing("gang"), existing("other"))
	client.PrependReactor("*", "resourceclaims", s.react)
	return s, client
}

func (s *server) react(action clienttesting.Action) (bool, runtime.Object, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	kind := action.GetVerb()
	if action.GetSubresource() != "" {
		kind += " " + action.GetSubresource()
	}
	s.requests = append(s.requests, kind)

	var f fault
	if i := slices.IndexFunc(s.faults, func(f fault) bool { return f.on == kind }); i >= 0 {
		f = s.faults[i]
		s.faults = slices.Delete(s.faults, i, i+1)
	}
	if f.before != nil {
		s.change(f.before)
	}
	if f.err != nil && !f.applied {
		s.recordBody(action)
		return true, nil, f.err
	}
	answer, err := s.serve(action, kind)
	if f.err != nil {
		if err != nil {
			s.t.Errorf("request %q should take effect, but cannot: %v", kind, err)
		}
		return true, nil, f.err
	}
	if err != nil {
		return true, nil, err
	}
	return true, answer.DeepCopy(), nil
}

// change makes a change by another client.
func (s *server) change(f func(*resourceapi.ResourceClaim) *resourceapi.ResourceClaim) {
	var current *resourceapi.ResourceClaim
	if s.claim != nil {
		current = s.claim.DeepCopy()
	}
	s.claim = f(current)
	if s.claim != nil {
		s.bumpVersion()
	}
}

func (s *server) recordBody(action clienttesting.Action) {
	if update, ok := action.(clienttesting.UpdateAction); ok && action.GetVerb() == "update" {
		options, hasOptions := action.(clienttesting.UpdateActionImpl)
		if !hasOptions || options.UpdateOptions.FieldManager != FieldManager {
			s.t.Errorf("%s in the name of somebody else: %#v", action.GetVerb(), action)
		}
		s.bodies = append(s.bodies, update.GetObject().(*resourceapi.ResourceClaim).DeepCopy())
	}
}

func (s *server) serve(action clienttesting.Action, kind string) (*resourceapi.ResourceClaim, error) {
	s.recordBody(action)
	if kind == "create" {
		return s.create(action.(clienttesting.CreateActionImpl))
	}
	if s.claim == nil {
		return nil, apierrors.NewNotFound(claimsResource, "claim")
	}
	switch kind {
	case "get":
		return s.claim, nil
	case "delete":
		return s.delete(action.(clienttesting.DeleteActionImpl))
	}
	return s.put(action.(clienttesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim), kind)
}

func (s *server) create(action clienttesting.CreateActionImpl) (*resourceapi.ResourceClaim, error) {
	if action.CreateOptions.FieldManager != FieldManager {
		s.t.Errorf("create in the name of somebody else: %#v", action)
	}
	sent := action.Object.(*resourceapi.ResourceClaim)
	if s.claim != nil {
		return nil, apierrors.NewAlreadyExists(claimsResource, sent.Name)
	}
	s.claim = sent.DeepCopy()
	s.claim.UID, s.claim.ResourceVersion = "created-uid", "1"
	return s.claim, nil
}

// delete takes the claim away unless it has finalizers.
func (s *server) delete(action clienttesting.DeleteActionImpl) (*resourceapi.ResourceClaim, error) {
	want := action.DeleteOptions.Preconditions
	if want == nil || want.UID == nil || want.ResourceVersion == nil {
		s.t.Error("a deletion without preconditions")
		return s.claim, nil
	}
	if *want.UID != s.claim.UID || *want.ResourceVersion != s.claim.ResourceVersion {
		return nil, apierrors.NewConflict(claimsResource, s.claim.Name, fmt.Errorf("want %s/%s, have %s/%s",
			*want.UID, *want.ResourceVersion, s.claim.UID, s.claim.ResourceVersion))
	}
	answer := s.claim
	if len(s.claim.Finalizers) > 0 {
		beingDeleted(s.claim)
		s.bumpVersion()
	} else {
		s.claim = nil
	}
	return answer, nil
}

// put handles updates with and without subresource.
func (s *server) put(sent *resourceapi.ResourceClaim, kind string) (*resourceapi.ResourceClaim, error) {
	if sent.UID != s.claim.UID || sent.ResourceVersion != s.claim.ResourceVersion {
		return nil, apierrors.NewConflict(claimsResource, sent.Name, fmt.Errorf("sent %s/%s, have %s/%s", sent.UID, sent.ResourceVersion, s.claim.UID, s.claim.ResourceVersion))
	}
	switch kind {
	case "update":
		s.claim.ObjectMeta = *sent.ObjectMeta.DeepCopy()
		if s.forgetFinalizers {
			s.claim.Finalizers = nil
		}
	case "update status":
		s.claim.Status = *sent.Status.DeepCopy()
		if s.drop != nil && s.claim.Status.Allocation != nil {
			s.drop(s.claim.Status.Allocation)
		}
	default:
		return nil, apierrors.NewMethodNotSupported(claimsResource, kind)
	}
	s.bumpVersion()
	return s.claim, nil
}

func (s *server) bumpVersion() {
	version, err := strconv.Atoi(s.claim.ResourceVersion)
	if err != nil {
		s.t.Errorf("resourceVersion of the stored claim: %v", err)
	}
	s.claim.ResourceVersion = strconv.Itoa(version + 1)
}

// now is the time of all fake clocks. It has no fraction of a second, like all
// times that went through the API.
var now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// newTestWriter returns a Writer that does not really wait. The pauses are
// recorded without jitter.
func newTestWriter(client *fake.Clientset) (*Writer, *[]time.Duration) {
	var mutex sync.Mutex
	pauses := &[]time.Duration{}
	w := New(client, Options{})
	w.clock = testingclock.NewFakePassiveClock(now)
	w.random = func() float64 { return 0.5 }
	w.sleep = func(ctx context.Context, d time.Duration) error {
		mutex.Lock()
		defer mutex.Unlock()
		*pauses = append(*pauses, d)
		return context.Cause(ctx)
	}
	return w, pauses
}

// requireVersioned checks that no write was unconditional.
func (s *server) requireVersioned(t *testing.T) {
	for i, body := range s.bodies {
		require.NotEmpty(t, body.UID, "UID in write #%d", i)
		require.NotEmpty(t, body.ResourceVersion, "resourceVersion in write #%d", i)
	}
}

// always returns n copies of a fault.
func always(n int, f fault) []fault {
	return slices.Repeat([]fault{f}, n)
}
