package quartermaster

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"

	"github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// server is an API server behind a fake clientset. To what the clientset does by
// itself it adds what claims need: resource versions that increase, optimistic
// locking by version and UID, and a status that is written apart from the rest.
// It can be told to misbehave.
type server struct {
	t      *testing.T
	client *fake.Clientset

	mutex   sync.Mutex
	version int
	faults  []fault
	// writes lists the successful and failed writes of claims as "update NAME",
	// "update/status NAME" and so on, in order.
	writes []string
}

// fault changes the answer to one request about claims.
type fault struct {
	// on is "get", "create", "update", "update/status" or "delete", or "patch/status" of a
	// pod; the fault waits for such a request.
	on string
	// claim restricts the fault to the claim of that name, unless it is empty.
	claim string
	// before runs before the server handles the request.
	before func()
	// applied says that the request takes effect although the answer is err.
	applied bool
	// err is the answer, nil for the normal one.
	err error
	// forever keeps the fault for all further requests.
	forever bool
}

var (
	claimsResource = resourceapi.SchemeGroupVersion.WithResource("resourceclaims")
	podsResource   = v1.SchemeGroupVersion.WithResource("pods")
)

// firstVersion is above the versions that the fake clientset gives to lists.
const firstVersion = 1_000_000

func startServer(t *testing.T, objects ...runtime.Object) *server {
	s := &server{t: t, client: fake.NewSimpleClientset(), version: firstVersion}
	s.client.PrependReactor("patch", "pods", s.reactToPatch)
	s.client.PrependReactor("*", "resourceclaims", s.reactToClaims)
	for _, obj := range objects {
		s.create(obj)
	}
	return s
}

// fail adds faults.
func (s *server) fail(faults ...fault) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.faults = append(s.faults, faults...)
}

// silenceClaims makes new watches of claims show nothing. Their users then know only what a list shows.
func (s *server) silenceClaims() {
	s.client.PrependWatchReactor("resourceclaims", func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, watch.NewFake(), nil
	})
}

// recoverNow removes all faults.
func (s *server) recoverNow() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.faults = nil
}

func (s *server) takeFault(on, claim string) fault {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	i := slices.IndexFunc(s.faults, func(f fault) bool { return f.on == on && (f.claim == "" || f.claim == claim) })
	if i < 0 {
		return fault{}
	}
	f := s.faults[i]
	if !f.forever {
		s.faults = slices.Delete(s.faults, i, i+1)
	}
	return f
}

func (s *server) reactToClaims(action clienttesting.Action) (bool, runtime.Object, error) {
	on, name := action.GetVerb(), ""
	if action.GetSubresource() != "" {
		on += "/" + action.GetSubresource()
	}
	switch action := action.(type) {
	case clienttesting.UpdateAction: // Also if it creates.
		name = action.GetObject().(*resourceapi.ResourceClaim).Name
	case clienttesting.GetAction: // Also if it deletes.
		name = action.GetName()
	default:
		return false, nil, nil
	}
	if on != "get" {
		s.mutex.Lock()
		s.writes = append(s.writes, on+" "+name)
		s.mutex.Unlock()
	}
	f := s.takeFault(on, name)
	if f.before != nil {
		f.before()
	}
	if f.err != nil && !f.applied {
		return true, nil, f.err
	}
	if on == "get" {
		return f.err != nil, nil, f.err
	}
	var stored *resourceapi.ResourceClaim
	var err error
	switch on {
	case "create":
		stored, err = s.createSent(action.(clienttesting.CreateAction).GetObject().(*resourceapi.ResourceClaim))
	case "delete":
		stored, err = s.deleteAsked(action.(clienttesting.DeleteActionImpl))
	default:
		stored, err = s.put(action.(clienttesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim), on)
	}
	if err == nil {
		err = f.err
	}
	if err != nil {
		return true, nil, err
	}
	return true, stored, nil
}

// put stores an update of a claim if it is based on the current state.
func (s *server) put(sent *resourceapi.ResourceClaim, on string) (*resourceapi.ResourceClaim, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	obj, err := s.client.Tracker().Get(claimsResource, sent.Namespace, sent.Name)
	if err != nil {
		return nil, err
	}
	claim := obj.(*resourceapi.ResourceClaim)
	if sent.UID != claim.UID || sent.ResourceVersion != claim.ResourceVersion {
		return nil, apierrors.NewConflict(claimsResource.GroupResource(), sent.Name,
			fmt.Errorf("sent %s/%s, have %s/%s", sent.UID, sent.ResourceVersion, claim.UID, claim.ResourceVersion))
	}
	if on == "update/status" {
		recordManager(claim, sent)
		claim.Status = *sent.Status.DeepCopy()
	} else {
		claim.ObjectMeta = *sent.ObjectMeta.DeepCopy()
		recordProtection(claim)
	}
	claim.ResourceVersion = s.nextVersion()
	return claim, s.client.Tracker().Update(claimsResource, claim, claim.Namespace)
}

// recordManager records the manager of the allocation, as the API server does: requests through the clientset are the
// plugin's. Allocations of tests have no manager.
func recordManager(claim, sent *resourceapi.ResourceClaim) {
	switch {
	case sent.Status.Allocation == nil:
		claim.ManagedFields = nil
	case claim.Status.Allocation == nil:
		claim.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: write.FieldManager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status",
			FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:allocation":{"f:devices":{"f:results":{}}}}}`),
		}}
	}
}

// recordProtection notes that the plugin has set the finalizer.
func recordProtection(claim *resourceapi.ResourceClaim) {
	if slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
		claim.ManagedFields = append(claim.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: write.FieldManager, Operation: metav1.ManagedFieldsOperationUpdate,
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:finalizers":{"v:\"` + resourceapi.Finalizer + `\"":{}}}}`),
		})
	}
}

func (s *server) nextVersion() string {
	s.version++
	return strconv.Itoa(s.version)
}

// resourceOf returns the object's metadata and resource.
func (s *server) resourceOf(obj runtime.Object) (schema.GroupVersionResource, interface {
	GetNamespace() string
	GetName() string
	SetResourceVersion(string)
}) {
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	require.NoError(s.t, err)
	accessor, err := meta.Accessor(obj)
	require.NoError(s.t, err)
	plural, _ := meta.UnsafeGuessKindToResource(kinds[0])
	return plural, accessor
}

// create, replace and remove act like other clients, unconditionally.
func (s *server) create(obj runtime.Object) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	obj = obj.DeepCopyObject()
	resource, accessor := s.resourceOf(obj)
	accessor.SetResourceVersion(s.nextVersion())
	require.NoError(s.t, s.client.Tracker().Create(resource, obj, accessor.GetNamespace()))
}

func (s *server) replace(obj runtime.Object) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	obj = obj.DeepCopyObject()
	resource, accessor := s.resourceOf(obj)
	accessor.SetResourceVersion(s.nextVersion())
	require.NoError(s.t, s.client.Tracker().Update(resource, obj, accessor.GetNamespace()))
}

func (s *server) remove(obj runtime.Object) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	resource, accessor := s.resourceOf(obj)
	require.NoError(s.t, s.client.Tracker().Delete(resource, accessor.GetNamespace(), accessor.GetName()))
}

// claim reads a claim as it is on the server.
func (s *server) claim(name string) *resourceapi.ResourceClaim {
	obj, err := s.client.Tracker().Get(claimsResource, builder.Namespace, name)
	require.NoError(s.t, err)
	return obj.(*resourceapi.ResourceClaim)
}

// changeClaim is an unconditional change by another client.
func (s *server) changeClaim(name string, change func(*resourceapi.ResourceClaim)) {
	claim := s.claim(name)
	change(claim)
	s.replace(claim)
}

func (s *server) pod(name string) *v1.Pod {
	obj, err := s.client.Tracker().Get(podsResource, builder.Namespace, name)
	require.NoError(s.t, err)
	return obj.(*v1.Pod)
}

// forbidden is an answer that is final: no writer tries again by itself.
func forbidden() error {
	return apierrors.NewForbidden(claimsResource.GroupResource(), "claim", fmt.Errorf("not now"))
}

// down makes all requests about claims fail as if there were no server.
func (s *server) down() {
	for _, on := range []string{"get", "create", "update", "update/status", "delete"} {
		s.fail(fault{on: on, err: fmt.Errorf("connection refused"), forever: true})
	}
}

// objects reads an object of the API groups of devices that has no namespace.
func (s *server) objects(resource, name string) runtime.Object {
	obj, err := s.client.Tracker().Get(resourceapi.SchemeGroupVersion.WithResource(resource), "", name)
	require.NoError(s.t, err)
	return obj
}

// otherServer is an API server of another version.
type otherServer struct {
	claims.Server
	noClaims       error
	limit          int
	storesExtended bool
}

func (s otherServer) NoClaims() error                              { return s.noClaims }
func (s otherServer) ConsumerLimit(*resourceapi.ResourceClaim) int { return s.limit }
func (s otherServer) StoresExtendedResources() bool                { return s.storesExtended }
