package api

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// without returns the resources but one.
func without(resource string) []string {
	var result []string
	for _, r := range allResources {
		if r != resource {
			result = append(result, r)
		}
	}
	return result
}

func TestVersions(t *testing.T) {
	t.Parallel()
	core := without(ruleResource)
	for name, tc := range map[string]struct {
		has  map[Version][]string
		want map[string]Version
	}{
		"1.37: everything in v1": {
			has:  map[Version][]string{V1: allResources},
			want: map[string]Version{claimResource: V1, ruleResource: V1},
		},
		"1.36: rules in v1beta2": {
			has:  map[Version][]string{V1: core, V1beta2: allResources},
			want: map[string]Version{claimResource: V1, ruleResource: V1beta2},
		},
		"1.35: rules in v1alpha3": {
			has:  map[Version][]string{V1: core, V1alpha3: {ruleResource}},
			want: map[string]Version{claimResource: V1, sliceResource: V1, ruleResource: V1alpha3},
		},
		"1.33: both beta versions": {
			has:  map[Version][]string{V1beta2: core, V1beta1: core},
			want: map[string]Version{claimResource: V1beta2, classResource: V1beta2, ruleResource: None},
		},
		"1.32": {
			has:  map[Version][]string{V1beta1: core},
			want: map[string]Version{claimResource: V1beta1, templateResource: V1beta1, ruleResource: None},
		},
		"1.31": {
			has:  map[Version][]string{V1alpha3: core},
			want: map[string]Version{claimResource: V1alpha3, sliceResource: V1alpha3, classResource: V1alpha3, ruleResource: None},
		},
		"1.30": {
			has: map[Version][]string{V1alpha2: {claimResource, templateResource, alpha2ClassResource, sliceResource, contextResource,
				classParametersResource, claimParametersResource}},
			want: map[string]Version{claimResource: V1alpha2, classResource: V1alpha2, sliceResource: V1alpha2, contextResource: V1alpha2, ruleResource: None},
		},
		"1.29": {
			has:  map[Version][]string{V1alpha2: {claimResource, templateResource, alpha2ClassResource, contextResource}},
			want: map[string]Version{claimResource: V1alpha2, classResource: V1alpha2, sliceResource: None, classParametersResource: None},
		},
		"off": {
			want: map[string]Version{claimResource: None, ruleResource: None},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, tc.has)
			client, _ := s.connect()
			served := Of(client)
			require.NoError(t, served.ask(t.Context(), 0))
			for resource, version := range tc.want {
				require.Equal(t, version, served.Version(resource), resource)
			}
			require.Equal(t, len(tc.has[V1]) == len(allResources), served.everything(V1))
			require.Equal(t, tc.want[claimResource] == V1, Of(client).StoresExtendedResources())
			require.Equal(t, slices.Contains([]Version{None, V1alpha2}, tc.want[claimResource]), served.podsMayBeOld())
		})
	}
}

// An unreachable server does not keep a scheduler from starting. The client tries v1, and the first failed request
// determines the version.
func TestServerIsNotThereYet(t *testing.T) {
	t.Parallel()
	s := startServer(t, map[Version][]string{V1beta1: without(ruleResource)})
	s.add(claimResource, "gpus")
	s.setDown(true)
	client, _ := s.connect()
	served := Of(client)
	require.Error(t, served.ask(t.Context(), 0))
	require.False(t, served.everything(V1), "it is not known")
	require.Equal(t, V1, served.Version(claimResource))
	require.True(t, served.podsMayBeOld())

	s.setDown(false)
	s.took()
	list, err := client.ResourceV1().ResourceClaims("default").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	require.Equal(t, []string{"GET v1/resourceclaims", "GET v1beta1/resourceclaims"}, s.took())
	require.Equal(t, None, served.Version(ruleResource), "there was never anything else")
	require.False(t, served.podsMayBeOld())
}

// A server that comes up is asked soon, without any request that fails.
func TestServerComesUp(t *testing.T) {
	t.Parallel()
	s := startServer(t, map[Version][]string{V1: allResources})
	s.setDown(true)
	client, clock := s.connect()
	served := Of(client)
	require.Error(t, served.ask(t.Context(), 0))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		served.run(t.Context())
	}()
	s.setDown(false)
	require.Eventually(t, func() bool {
		if clock.HasWaiters() {
			clock.Step(askAgainAfter)
		}
		return served.hasAnswered()
	}, patience, time.Millisecond)
	require.Less(t, clock.Since(clockStart), lookAgainAfter)
	require.False(t, served.podsMayBeOld())
	<-ended // There is nothing left to look for.
}

// An answer about only some versions is ignored: a newer one may be among the others.
func TestPartOfAnAnswerIsNone(t *testing.T) {
	t.Parallel()
	core := without(ruleResource)
	s := startServer(t, map[Version][]string{V1beta1: core})
	client, clock := s.connect()
	served := Of(client)
	s.setSilent(V1beta2)
	require.ErrorContains(t, served.ask(t.Context(), 0), "resource.k8s.io/v1beta2")
	require.Equal(t, V1, served.Version(claimResource), "nothing is known")
	s.setSilent(None)
	require.NoError(t, served.ask(t.Context(), 0))
	require.Equal(t, V1beta1, served.Version(claimResource))
	for _, silent := range []Version{V1, V1beta2, V1beta1, V1alpha3, V1alpha2} {
		s.setSilent(silent)
		s.upgrade(map[Version][]string{V1alpha3: core})
		clock.Step(time.Hour)
		require.Error(t, served.ask(t.Context(), 0))
		require.Equal(t, V1beta1, served.Version(claimResource), "of %s is nothing known", silent)
	}
}

// What has been there does not count as gone, however often the server says so.
func TestNothingGetsLost(t *testing.T) {
	t.Parallel()
	s := startServer(t, map[Version][]string{V1beta1: without(ruleResource)})
	s.add(claimResource, "gpus")
	client, clock := s.connect()
	require.NoError(t, Of(client).ask(t.Context(), 0))
	s.upgrade(nil)
	for range 3 {
		clock.Step(time.Hour)
		list, err := client.ResourceV1().ResourceClaims("").List(t.Context(), metav1.ListOptions{})
		require.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
		require.Nil(t, list)
		require.Equal(t, V1beta1, Of(client).Version(claimResource))
	}
	s.upgrade(map[Version][]string{V1: allResources})
	clock.Step(time.Hour)
	list, err := client.ResourceV1().ResourceClaims("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
}

// Requests that fail at the same time do not each ask the server.
func TestServerIsNotAskedTooOften(t *testing.T) {
	t.Parallel()
	s := startServer(t, map[Version][]string{V1beta1: allResources})
	client, clock := s.connect()
	served := Of(client)
	require.NoError(t, served.ask(t.Context(), 0))
	asked := func() int {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		n := 0
		for _, r := range s.requests {
			if r == "DISCOVER v1" {
				n++
			}
		}
		return n
	}
	before := asked()
	for range 5 {
		_, other := served.instead(t.Context(), claimResource, V1beta1)
		require.False(t, other)
		served.lookForBetter(t.Context(), claimResource)
	}
	require.Equal(t, before, asked())
	clock.Step(askAgainAfter)
	served.lookForBetter(t.Context(), claimResource)
	require.Equal(t, before, asked(), "nothing is wrong, so there is time")
	served.instead(t.Context(), claimResource, V1beta1)
	require.Equal(t, before+1, asked())
	clock.Step(lookAgainAfter)
	served.lookForBetter(t.Context(), claimResource)
	require.Equal(t, before+2, asked())
	clock.Step(lookAgainAfter)
	version, other := served.instead(t.Context(), claimResource, V1)
	require.True(t, other, "somebody else has found that out already")
	require.Equal(t, V1beta1, version)
	require.Equal(t, before+2, asked())
}

// What v1 does not have goes with an upgrade, once the server has claims without it.
func TestOptionalResourcesGo(t *testing.T) {
	t.Parallel()
	core := without(ruleResource)
	s := startServer(t, map[Version][]string{V1alpha3: append(slices.Clone(core), contextResource)})
	client, clock := s.connect()
	served := Of(client)
	require.NoError(t, served.ask(t.Context(), 0))
	require.Equal(t, V1alpha3, served.Version(contextResource))
	s.upgrade(nil)
	clock.Step(time.Hour)
	require.NoError(t, served.ask(t.Context(), 0))
	require.Equal(t, V1alpha3, served.Version(contextResource), "the server has nothing at all; that does not last")
	s.upgrade(map[Version][]string{V1beta1: core})
	clock.Step(time.Hour)
	contexts, err := ClassicOf(client).Contexts("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err, "nobody has to wait for what is not there any more")
	require.Empty(t, contexts.Items)
	require.Equal(t, None, served.Version(contextResource))
	require.Equal(t, V1beta1, served.Version(claimResource))
}

func TestMayServeClaims(t *testing.T) {
	t.Parallel()
	all := []Version{V1, V1beta2, V1beta1, V1alpha3, V1alpha2}
	for best, want := range map[Version][]Version{
		V1:       all[:3],
		V1beta1:  all[:4],
		V1alpha3: all[:4],
		V1alpha2: {V1, V1beta2, V1beta1, V1alpha2},
	} {
		s := &Served{versions: map[string]Version{"resourceclaims": best}}
		var got []Version
		for _, version := range all {
			if s.MayServeClaims(version) {
				got = append(got, version)
			}
		}
		require.Equal(t, want, got, best)
	}
	require.False(t, (*Served)(nil).MayServeClaims(V1alpha2), "v1 of everything")
	require.True(t, (*Served)(nil).MayServeClaims(V1))
}
