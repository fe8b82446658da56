package write

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestDenied(t *testing.T) {
	forbidden := func(text string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "resourceclaims"}, "c", errors.New(text))
	}
	require.True(t, Denied(fmt.Errorf("reserve: %w", forbidden(`admission webhook "claims.quartermaster-dra.github.io" denied the request: claim a/b has it`))))
	require.False(t, Denied(forbidden(`admission webhook "other.example.com" denied the request: claims.quartermaster-dra.github.io`)))
	require.False(t, Denied(forbidden("no right")))
	require.False(t, Denied(errors.New(`admission webhook "claims.quartermaster-dra.github.io" denied the request: x`)))
	require.False(t, Denied(nil))
}

// TestMarks has a client ask servers that warn of something or of nothing.
func TestMarks(t *testing.T) {
	_, mark := Recording(t.Context())
	require.True(t, mark.Seen(), "nobody has looked, so it cannot be told")
	Install()
	t.Cleanup(func() {
		rest.SetDefaultWarningHandlerWithContext(rest.WarningLogger{})
		installed.Store(false)
	})
	asked := func(ctx context.Context, warning string) {
		t.Helper()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if warning != "" {
				w.Header().Set("Warning", fmt.Sprintf("299 - %q", warning))
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"kind":"ResourceClaim","apiVersion":"resource.k8s.io/v1"}`)
		}))
		defer server.Close()
		client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
		require.NoError(t, err)
		_, err = client.ResourceV1().ResourceClaims("default").Get(ctx, "x", metav1.GetOptions{})
		require.NoError(t, err)
	}
	for warning, want := range map[string]bool{Text: true, "": false, "another one": false, Text + "?": false} {
		ctx, mark := Recording(t.Context())
		_, other := Recording(t.Context())
		asked(ctx, warning)
		require.Equal(t, want, mark.Seen(), warning)
		require.False(t, other.Seen(), "it is another request's")
	}
	asked(t.Context(), Text) // The context has no GuardWarning.
}
