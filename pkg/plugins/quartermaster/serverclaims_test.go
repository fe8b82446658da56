package quartermaster

import (
	"fmt"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// createSent stores a claim that the plugin makes.
func (s *server) createSent(sent *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	claim := sent.DeepCopy()
	claim.ResourceVersion = s.nextVersion()
	claim.UID = types.UID("uid-" + claim.Name + "-" + claim.ResourceVersion)
	claim.Status = resourceapi.ResourceClaimStatus{}
	recordProtection(claim)
	return claim, s.client.Tracker().Create(claimsResource, claim, claim.Namespace)
}

// deleteAsked deletes a claim if the preconditions hold; with finalizers it stays, marked as deleted.
func (s *server) deleteAsked(action clienttesting.DeleteActionImpl) (*resourceapi.ResourceClaim, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	obj, err := s.client.Tracker().Get(claimsResource, action.Namespace, action.Name)
	if err != nil {
		return nil, err
	}
	claim := obj.(*resourceapi.ResourceClaim)
	want := action.DeleteOptions.Preconditions
	if *want.UID != claim.UID || *want.ResourceVersion != claim.ResourceVersion {
		return nil, apierrors.NewConflict(claimsResource.GroupResource(), claim.Name,
			fmt.Errorf("want %s/%s, have %s/%s", *want.UID, *want.ResourceVersion, claim.UID, claim.ResourceVersion))
	}
	if len(claim.Finalizers) == 0 {
		return claim, s.client.Tracker().Delete(claimsResource, claim.Namespace, claim.Name)
	}
	now := metav1.Now()
	claim.DeletionTimestamp, claim.ResourceVersion = &now, s.nextVersion()
	return claim, s.client.Tracker().Update(claimsResource, claim, claim.Namespace)
}

// reactToPatch makes patches of a pod's status fail if the test has set a fault.
func (s *server) reactToPatch(action clienttesting.Action) (bool, runtime.Object, error) {
	f := s.takeFault("patch/"+action.GetSubresource(), action.(clienttesting.PatchAction).GetName())
	if f.before != nil {
		f.before()
	}
	return f.err != nil, nil, f.err
}

// claimsFor lists the claims on the server that belong to a pod, as this scheduler makes
// them for extended resources.
func (s *server) claimsFor(pod types.UID) []*resourceapi.ResourceClaim {
	obj, err := s.client.Tracker().List(claimsResource, resourceapi.SchemeGroupVersion.WithKind("ResourceClaim"), builder.Namespace)
	require.NoError(s.t, err)
	var claims []*resourceapi.ResourceClaim
	for i := range obj.(*resourceapi.ResourceClaimList).Items {
		if claim := &obj.(*resourceapi.ResourceClaimList).Items[i]; podclaims.MadeFor(claim) == pod {
			claims = append(claims, claim)
		}
	}
	return claims
}
