package registration

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// lookout has a Lookout and the configuration that it looks at.
type lookout struct {
	*Lookout
	t *testing.T
	// found is the server's configuration, nil for none, and fails its error.
	found *admissionregistrationv1.ValidatingWebhookConfiguration
	fails error
}

const lasts = 15 * time.Second

func newLookout(t *testing.T) *lookout {
	t.Helper()
	client := fake.NewClientset()
	l := &lookout{Lookout: &Lookout{Client: client, Lease: "guards/lease", Lasts: lasts}, t: t}
	client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		if l.fails == nil && l.found == nil {
			return false, nil, nil
		}
		return true, l.found, l.fails
	})
	return l
}

// names sets the Lease that the configuration is for, and looks.
func (l *lookout) names(lease string) {
	l.t.Helper()
	l.found = elsewhere()
	l.found.Annotations[LeaseAnnotation] = lease
	l.Look(l.t.Context())
}

func TestNoCandidateWithAnotherLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLookout(t)
		require.ErrorContains(t, l.Candidate(), "could not be looked at so far")
		l.Look(t.Context())
		require.NoError(t, l.Candidate(), "nobody has registered")
		l.names("guards/lease")
		require.NoError(t, l.Candidate())
		l.names("others/lease")
		require.ErrorIs(t, l.Candidate(), ErrOtherLease)
		l.names("guards/lease")
		require.ErrorContains(t, l.Candidate(), "one of them may decide so long")
		time.Sleep(2*lasts - time.Second)
		l.Look(t.Context())
		require.Error(t, l.Candidate(), "they may not have looked, and their Lease lasts from then on")
		time.Sleep(time.Second)
		require.NoError(t, l.Candidate())
		delete(l.found.Annotations, LeaseAnnotation)
		l.Look(t.Context())
		require.NoError(t, l.Candidate(), "it is for anybody")
	})
}

// A process that cannot look does not know whether the configuration is for other guards by now.
func TestNoCandidateThatCannotLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLookout(t)
		l.names("guards/lease")
		l.fails = errors.New("the server is away")
		time.Sleep(lasts - time.Second)
		l.Look(t.Context())
		require.NoError(t, l.Candidate())
		time.Sleep(time.Second)
		require.ErrorContains(t, l.Candidate(), "could not be looked at for 15s: the server is away")
		l.fails = nil
		l.Look(t.Context())
		require.NoError(t, l.Candidate())
	})
}
