package registration

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
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
		r.Expect = l.Expect
		r.install(elsewhere())
		l.Look(t.Context())
		require.True(t, l.Asked("/"), "as somebody has installed it")
		r.ensure()
		first := r.path
		require.Len(t, first, 27)
		require.True(t, l.Asked(first), "before anybody has looked")
		look := func(passes time.Duration) {
			for range passes / lookInterval {
				time.Sleep(lookInterval)
				l.Look(t.Context())
			}
		}
		look(pathCounts)
		require.False(t, l.Asked("/"))
		look(pathLasts - pathCounts)
		require.True(t, l.Asked(first), "the configuration has it")
		r.ensure()
		require.NotEqual(t, first, r.path)
		require.True(t, l.Asked(first))
		look(pathCounts + lookInterval)
		require.False(t, l.Asked(first))
		require.True(t, l.Asked(r.path))
		time.Sleep(time.Hour)
		require.True(t, l.Asked(r.path), "nobody could look since, and nobody could change it for all that is known")
		require.False(t, l.Asked(""))
	})
}
