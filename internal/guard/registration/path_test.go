package registration

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

func TestPathOf(t *testing.T) {
	t.Parallel()
	for want, client := range map[string]admissionregistrationv1.WebhookClientConfig{
		"/":  {URL: ptr.To(here)},
		"/a": {URL: ptr.To(here + "/a")},
		"/b": {Service: &admissionregistrationv1.ServiceReference{Path: ptr.To("/b")}},
	} {
		require.Equal(t, want, pathOf(New(client, "guards/lease", admissionregistrationv1.Fail)))
	}
	require.Equal(t, "/", pathOf(New(admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{}}, "guards/lease", admissionregistrationv1.Fail)))
	require.Empty(t, pathOf(&admissionregistrationv1.ValidatingWebhookConfiguration{}))
}

// The path changes, and so it does when another guard decides; API servers that do not know yet are answered meanwhile. That of
// a configuration which the guard may not write counts as it is.
func TestPathThatNobodyKnows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRegistered(t, here)
		l := &Lookout{Client: r.client, Lease: "guards/lease", Lasts: lasts}
		r.Lookout = l
		r.install(elsewhere())
		l.Look(t.Context())
		require.True(t, l.Asked(t.Context(), "/"), "as somebody has installed it")
		r.ensure()
		first := r.path
		require.Len(t, first, 27)
		require.True(t, l.Asked(t.Context(), first), "before anybody has looked")
		look := func(passes time.Duration) {
			for range passes / lookInterval {
				time.Sleep(lookInterval)
				l.Look(t.Context())
			}
		}
		look(pathCounts - lookInterval)
		require.True(t, l.Asked(t.Context(), "/"), "an API server may not know better yet")
		look(lookInterval)
		require.False(t, l.Asked(t.Context(), "/"))
		require.True(t, l.Asked(t.Context(), first), "the configuration has it")
		r.ensure()
		require.NotEqual(t, first, r.path)
		require.True(t, l.Asked(t.Context(), first))
		look(pathCounts + lookInterval)
		require.False(t, l.Asked(t.Context(), first))
		require.True(t, l.Asked(t.Context(), r.path))
		time.Sleep(time.Hour)
		require.True(t, l.Asked(t.Context(), r.path), "nobody could look since, and nobody could change it for all that is known")
		require.False(t, l.Asked(t.Context(), ""))
	})
}

// The configuration is replaced by that of a manifest, which has no path. API servers ask there at once.
func TestPathOfWhatHasBeenReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLookout(t)
		at := func(path *string) {
			l.found = New(admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Path: path}}, "guards/lease", admissionregistrationv1.Fail)
		}
		at(ptr.To("/a"))
		l.Look(t.Context())
		at(nil)
		require.True(t, l.Asked(t.Context(), "/"))
		at(ptr.To("/b"))
		began := time.Now()
		require.True(t, l.Asked(t.Context(), "/b"), "also a moment after the last look")
		require.Equal(t, unknownInterval, time.Since(began))
	})
}

// Requests at guessed paths cause at most one look a second, and do not delay other requests.
func TestGuessedPaths(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLookout(t)
		l.names("guards/lease")
		looks := 0
		l.Client.(*fake.Clientset).PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			looks++
			return false, nil, nil
		})
		const seconds = 5
		began := time.Now()
		for range mostUnknown {
			go func() {
				for time.Since(began) < seconds*time.Second {
					assert.False(t, l.Asked(t.Context(), "/guessed"))
				}
			}()
		}
		synctest.Wait()
		require.False(t, l.Asked(t.Context(), "/one-too-many"))
		require.True(t, l.Asked(t.Context(), "/"), "the installed one")
		require.Zero(t, time.Since(began))
		time.Sleep((seconds + 2) * time.Second)
		synctest.Wait()
		require.LessOrEqual(t, looks, seconds+1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.False(t, l.Asked(ctx, "/guessed"), "who has given up")
	})
}
