package api

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
)

func TestConsumerLimit(t *testing.T) {
	t.Parallel()
	shared, exclusive := &resourceapi.ResourceClaim{}, &resourceapi.ResourceClaim{}
	conversion.SetAlphaClaim(exclusive, conversion.AlphaClaim{Exclusive: true})
	for version, want := range map[Version][2]int{
		V1: {256, 256}, V1beta2: {256, 256}, V1beta1: {256, 256}, V1alpha3: {32, 32}, V1alpha2: {32, 1}, None: {256, 256},
	} {
		require.Equal(t, want, [2]int{version.consumerLimit(shared), version.consumerLimit(exclusive)}, version)
	}
	require.Equal(t, 256, Of(fake.NewClientset()).ConsumerLimit(shared))

	s := startServer(t, map[Version][]string{V1alpha3: without(ruleResource)})
	client, _ := s.connect()
	require.NoError(t, Of(client).ask(t.Context(), 0))
	limit, version := Of(client).ConsumerLimit, Of(client).ClaimVersion
	require.Equal(t, 32, limit(shared))
	require.Equal(t, "resource.k8s.io/v1alpha3", version())
	s.upgrade(map[Version][]string{V1: allResources})
	require.NoError(t, Of(client).ask(t.Context(), 0))
	require.Equal(t, 256, limit(shared), "the server is another one now")
	require.Equal(t, "resource.k8s.io/v1", version())
	require.Equal(t, "resource.k8s.io/v1", Of(fake.NewClientset()).ClaimVersion())
}

func TestNoClaims(t *testing.T) {
	t.Parallel()
	require.NoError(t, Of(fake.NewClientset()).NoClaims())
	s := startServer(t, nil)
	client, _ := s.connect()
	none := Of(client).NoClaims
	require.NoError(t, none(), "nothing is known yet")
	require.NoError(t, Of(client).ask(t.Context(), 0))
	require.ErrorContains(t, none(), "--runtime-config", "it has to say what to do")
	s.upgrade(map[Version][]string{V1beta1: without(ruleResource)})
	require.NoError(t, Of(client).ask(t.Context(), 0))
	require.NoError(t, none(), "the server is another one now")
}
