package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// claimServer stores claims as API servers do: each write gives a claim a newer version, and one that
// rests on an older version is refused.
type claimServer struct {
	*Fencer
	mutex    sync.Mutex
	revision int
	claims   map[string]*resourceapi.ResourceClaim
	// beforeUpdate is called before a claim is written. What it returns is the answer; nil lets
	// the write happen.
	beforeUpdate func(name string) error
	// stored is called with each write, in order; it may be nil.
	stored func(*resourceapi.ResourceClaim)
	// drops are the fields that an admission plugin drops from each patch: "annotations", "labels".
	drops []string
	// full is set if a claim has no room for annotations.
	full bool
	// noRoom is set if etcd stores no claim that has grown by more than room.
	noRoom bool
	room   int
	// written counts writes through the API.
	written int
}

// newClaimServer returns a server that has the claims, at version 3.
func newClaimServer(claims ...*resourceapi.ResourceClaim) *claimServer {
	s := &claimServer{revision: 100, claims: make(map[string]*resourceapi.ResourceClaim)}
	for _, claim := range claims {
		s.claims[claim.Name] = at(3, claim)
	}
	client := fake.NewClientset()
	client.PrependReactor("*", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		object, err := s.answer(action)
		return true, object, err
	})
	s.Fencer = &Fencer{Claims: client.ResourceV1(), RequestTimeout: time.Hour}
	return s
}

var claimResource = resourceapi.Resource("resourceclaims")

func (s *claimServer) answer(action clienttesting.Action) (runtime.Object, error) {
	switch action := action.(type) {
	case clienttesting.PatchAction:
		return s.patch(action.GetName(), action.GetPatch())
	case clienttesting.GetAction:
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if claim := s.claims[action.GetName()]; claim != nil {
			return claim.DeepCopy(), nil
		}
		return nil, apierrors.NewNotFound(claimResource, action.GetName())
	default:
		s.mutex.Lock()
		defer s.mutex.Unlock()
		list := &resourceapi.ResourceClaimList{}
		for _, claim := range s.claims {
			list.Items = append(list.Items, *claim.DeepCopy())
		}
		return list, nil
	}
}

// writes counts writes through the API.
func (s *claimServer) writes() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.written
}

// patch carries out a merge patch of metadata at a version.
func (s *claimServer) patch(name string, data []byte) (runtime.Object, error) {
	var patch struct {
		Metadata struct {
			ResourceVersion     string
			Annotations, Labels map[string]string
			ManagedFields       []metav1.ManagedFieldsEntry
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&patch); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if s.beforeUpdate != nil {
		if err := s.beforeUpdate(name); err != nil {
			return nil, err
		}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	current, wanted := s.claims[name], patch.Metadata
	switch {
	case current == nil:
		return nil, apierrors.NewNotFound(claimResource, name)
	case current.ResourceVersion != wanted.ResourceVersion:
		return nil, apierrors.NewConflict(claimResource, name, nil)
	case len(wanted.ManagedFields) > 0 && len(current.ManagedFields) == 0:
		return current.DeepCopy(), nil
	case s.noRoom && len(wanted.ManagedFields) == 0 && added(wanted.Annotations, wanted.Labels) > s.room:
		return nil, apierrors.NewInternalError(errors.New("etcdserver: request is too large"))
	case s.full && len(wanted.Annotations) > 0:
		return nil, apierrors.NewInvalid(schema.GroupKind{}, name, nil)
	case len(wanted.Annotations) > 0 && slices.Contains(s.drops, "annotations"), len(wanted.Labels) > 0 && slices.Contains(s.drops, "labels"):
		return current.DeepCopy(), nil
	}
	s.written++
	claim := current.DeepCopy()
	if len(wanted.ManagedFields) > 0 {
		claim.ManagedFields = nil
	}
	claim.Annotations, claim.Labels = maps.Clone(claim.Annotations), maps.Clone(claim.Labels)
	for key, value := range wanted.Annotations {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, key, value)
	}
	for key, value := range wanted.Labels {
		metav1.SetMetaDataLabel(&claim.ObjectMeta, key, value)
	}
	return s.put(claim).DeepCopy(), nil
}

// added returns the bytes that annotations and labels take.
func added(all ...map[string]string) (bytes int) {
	for _, texts := range all {
		for key, value := range texts {
			bytes += len(key) + len(value) + 6
		}
	}
	return bytes
}

// put stores a claim at a new version, whatever was there.
func (s *claimServer) put(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	s.revision++
	claim = at(s.revision, claim)
	s.claims[claim.Name] = claim
	if s.stored != nil {
		s.stored(claim)
	}
	return claim
}

// arrives stores a write by another client.
func (s *claimServer) arrives(claim *resourceapi.ResourceClaim) string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.put(claim).ResourceVersion
}

func (s *claimServer) remove(name string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.claims, name)
}

// refuses is the answer of a server that has a policy against writes.
func refuses(string) error {
	return apierrors.NewForbidden(claimResource, "", nil)
}

// unreachable is the answer of no server.
func unreachable(string) error {
	return apierrors.NewGenericServerResponse(http.StatusBadGateway, "update", claimResource, "", "", 0, true)
}

// lock is a Lease on a server that everybody may write to.
type lock struct {
	resourcelock.Interface
	holder string
}

const us, them = "us", "them"

func (l *lock) Identity() string { return us }

func (l *lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: l.holder}, nil, nil
}

func (l *lock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.holder = record.HolderIdentity
	return nil
}

// deputy is a Guard that decides, with what it knows, and its Lease. The API server has claims x and y,
// at version 3.
type deputy struct {
	*Guard
	*board
	lock     *lock
	followed resourcelock.Interface
}

func newDeputy(t *testing.T) *deputy {
	t.Helper()
	d := &deputy{board: newBoard(t, node()), lock: &lock{}}
	d.Guard = &Guard{Book: d.board.Book, Lease: &lease.Lease{}, History: &informer.History{}, Lookup: NewLookup(newClaimServer(requesting("x"), requesting("y")).Claims)}
	d.followed = d.Lease.Follow(d.lock, time.Hour)
	d.acquire()
	d.Guard.Book.Decide(d.Lease.Since())
	require.True(t, d.Decides())
	return d
}

// requesting is a claim without an allocation that requests a device.
func requesting(name string) *resourceapi.ResourceClaim {
	return b.Claim(name, b.Request("gpu", "gpu")).Obj()
}

// acquire has the guard get the Lease, or renew it.
func (d *deputy) acquire() {
	d.t.Helper()
	require.NoError(d.t, d.followed.Update(d.t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: us}))
}

// lose shows the guard that another process has the Lease.
func (d *deputy) lose() {
	d.t.Helper()
	d.lock.holder = them
	_, _, err := d.followed.Get(d.t.Context())
	require.NoError(d.t, err)
}

// shows has the watch deliver a claim.
func (d *deputy) shows(claim *resourceapi.ResourceClaim) {
	d.watch(claim.Name, claim)
	d.ClaimChanged("default/" + claim.Name)
}

// request is one for what the claim has to be stored, on top of a version of it.
func request(version int, claim *resourceapi.ResourceClaim) *Request {
	return &Request{Claim: refTo(claim), Version: strconv.Itoa(version), After: claim.Status.Allocation}
}

// decide is the guard's answer at once.
func (d *deputy) decide(version int, claim *resourceapi.ResourceClaim) Answer {
	return d.Guard.Review(d.t.Context(), request(version, claim))
}
