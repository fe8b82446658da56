package api

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha2"
)

var alpha2Resources = []string{claimResource, templateResource, alpha2ClassResource, sliceResource, classParametersResource, claimParametersResource, contextResource}

func soon(t *testing.T, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, patience, 5*time.Millisecond, what)
}

func toHubClaim(t *testing.T, class string, parameters *v1alpha2.ParametersReference) *resourceapi.ResourceClaim {
	inHub, err := convert[resourceapi.ResourceClaim](&v1alpha2.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"},
		Spec:       v1alpha2.ResourceClaimSpec{ResourceClassName: class, ParametersRef: parameters},
	})
	require.NoError(t, err)
	return inHub
}

// Classes and parameters are watched while claims are used in v1alpha2, and changes are passed on.
func TestResolver(t *testing.T) {
	t.Parallel()
	s := startServer(t, map[Version][]string{V1alpha2: alpha2Resources})
	client, _ := s.connect()
	require.NoError(t, client.resources.served.ask(t.Context(), 0))
	require.Equal(t, V1alpha2, client.resources.served.Version(classResource), "where it is called %s", alpha2ClassResource)

	resolver := ResolverOf(client)
	plain := toHubClaim(t, "gpu", nil)
	named := toHubClaim(t, "gpu", &v1alpha2.ParametersReference{APIGroup: resourceapi.GroupName, Kind: "ResourceClaimParameters", Name: "p"})
	_, err := resolver.Resolve(plain)
	require.EqualError(t, err, "claim default/c: resourceclaimparameters and resourceclasses and resourceclassparameters have not been read "+
		"from the API server yet; the log of the scheduler says why if this lasts")
	resolver.noteRead(classResource)
	_, err = resolver.Resolve(plain)
	require.ErrorContains(t, err, "claim default/c: resourceclaimparameters and resourceclassparameters have not been read")
	v1Claim := &resourceapi.ResourceClaim{}
	same, err := resolver.Resolve(v1Claim)
	require.NoError(t, err)
	require.Same(t, v1Claim, same)

	var ofPlain, ofNamed atomic.Int32
	resolver.OnChange(func(concerns func(*resourceapi.ResourceClaim) bool) {
		if concerns(plain) {
			ofPlain.Add(1)
		}
		if concerns(named) {
			ofNamed.Add(1)
		}
	})
	go resolver.run(t.Context())
	soon(t, func() bool {
		_, err := resolver.Resolve(plain)
		return err != nil && err.Error() == "claim default/c: resource class gpu does not exist; waiting for it to be created"
	}, "everything is read")
	require.GreaterOrEqual(t, ofPlain.Load(), int32(1), "that is news, too")

	before := ofNamed.Load()
	s.addAs(alpha2ClassResource, map[string]any{"metadata": map[string]any{"name": "gpu"}, "driverName": "d", "structuredParameters": true})
	soon(t, func() bool {
		resolved, err := resolver.Resolve(plain)
		return err == nil && len(resolved.Spec.Devices.Requests) == 1
	}, "the class is there")
	soon(t, func() bool { return ofNamed.Load() > before }, "a class concerns all of its claims")
	require.Nil(t, resolver.SuitableNodes(plain))
	_, err = resolver.Resolve(named)
	require.EqualError(t, err, "claim default/c: claim parameters default/p do not exist; waiting for them to be created")

	before = ofPlain.Load()
	s.addAs(claimParametersResource, map[string]any{"metadata": map[string]any{"name": "p", "namespace": "default"},
		"driverRequests": []any{map[string]any{"driverName": "d", "requests": []any{
			map[string]any{"namedResources": map[string]any{"selector": "true"}}, map[string]any{"namedResources": map[string]any{"selector": "true"}}}}}})
	soon(t, func() bool {
		resolved, err := resolver.Resolve(named)
		return err == nil && len(resolved.Spec.Devices.Requests) == 2
	}, "the parameters are there")
	require.Equal(t, before, ofPlain.Load(), "parameters of others")
}

// Objects that were deleted between two lists are forgotten.
func TestResolverReadsAgain(t *testing.T) {
	t.Parallel()
	r := newResolver(nil, alpha{})
	parameters := func(name string) *v1alpha2.ResourceClaimParameters {
		return &v1alpha2.ResourceClaimParameters{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	}
	require.NoError(t, r.known.Classes.Add(&v1alpha2.ResourceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, StructuredParameters: ptr.To(true)}))
	r.noteRead(classResource)
	r.noteRead(classParametersResource)
	store := feed{r.known.ClaimParameters, r, claimParametersResource}
	known := func(name string) error {
		_, err := r.Resolve(toHubClaim(t, "gpu", &v1alpha2.ParametersReference{APIGroup: resourceapi.GroupName, Kind: "ResourceClaimParameters", Name: name}))
		return err
	}
	require.ErrorContains(t, known("a"), "resourceclaimparameters have not been read")
	require.NoError(t, store.Replace([]any{parameters("a"), parameters("b")}, "1"))
	require.NoError(t, known("a"))
	require.NoError(t, known("b"))
	require.NoError(t, store.Replace([]any{parameters("b"), parameters("c")}, "2"))
	require.ErrorContains(t, known("a"), "claim parameters default/a do not exist")
	require.NoError(t, known("b"))
	require.NoError(t, store.Delete(parameters("b")))
	require.ErrorContains(t, known("b"), "claim parameters default/b do not exist")
	require.NoError(t, known("c"))
}

// A server before 1.30 has classes, but no parameters.
func TestResolverWithoutParameters(t *testing.T) {
	t.Parallel()
	s := startServer(t, map[Version][]string{V1alpha2: {claimResource, templateResource, alpha2ClassResource, contextResource}})
	s.addAs(alpha2ClassResource, map[string]any{"metadata": map[string]any{"name": "gpu"}, "driverName": "d"})
	client, _ := s.connect()
	require.NoError(t, client.resources.served.ask(t.Context(), 0))
	go client.resources.resolver.run(t.Context())
	soon(t, func() bool {
		_, err := client.resources.resolver.Resolve(toHubClaim(t, "gpu", nil))
		return err != nil && err.Error() == "claim default/c: resource class gpu has no structuredParameters so that its driver has to allocate the claim"
	}, "the class is known")
	for _, request := range s.took() {
		require.NotContains(t, request, "parameters")
	}
}

// Claims are read and written in v1alpha2, classes and slices are read.
func TestClientOfV1alpha2(t *testing.T) {
	t.Parallel()
	s := startServer(t, map[Version][]string{V1alpha2: alpha2Resources})
	s.addAs(claimResource, map[string]any{"metadata": map[string]any{"name": "c", "namespace": "default"},
		"spec": map[string]any{"resourceClassName": "gpu"}})
	s.addAs(alpha2ClassResource, map[string]any{"metadata": map[string]any{"name": "gpu"}, "driverName": "d"})
	s.addAs(sliceResource, map[string]any{"metadata": map[string]any{"name": "n"}, "nodeName": "n", "driverName": "d",
		"namedResources": map[string]any{"instances": []any{map[string]any{"name": "gpu-0"}}}})
	client, _ := s.connect()
	require.NoError(t, client.resources.served.ask(t.Context(), 0))
	api := client.ResourceV1()

	claim, err := api.ResourceClaims("default").Get(t.Context(), "c", metav1.GetOptions{})
	require.NoError(t, err)
	claim.Finalizers = []string{resourceapi.Finalizer}
	claim, err = api.ResourceClaims("default").Update(t.Context(), claim, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{resourceapi.Finalizer}, claim.Finalizers)
	stored := s.stored(claimResource, "c")
	require.Equal(t, map[string]any{"resourceClassName": "gpu"}, stored["spec"])
	require.Equal(t, []any{v1alpha2.Finalizer}, stored["metadata"].(map[string]any)["finalizers"])
	require.NotContains(t, stored["metadata"], "annotations")

	claims, err := api.ResourceClaims("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, claims.Items, 1)
	require.Equal(t, conversion.ByClass, conversion.AlphaClaimOf(&claims.Items[0]).Allocator)
	classes, err := api.DeviceClasses().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Equal(t, "gpu", classes.Items[0].Name)
	slices, err := api.ResourceSlices().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Equal(t, "gpu-0", slices.Items[0].Spec.Devices[0].Name)
	_, err = api.DeviceClasses().Create(t.Context(), &resourceapi.DeviceClass{}, metav1.CreateOptions{})
	require.ErrorContains(t, err, "that version can only be read here")
}
