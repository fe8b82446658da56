package webhook

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
)

// errNoCertificate is why a client is not answered.
var errNoCertificate = errors.New("the guard answers only to clients with a certificate by an authority in its --client-ca-file, and this one shows none; " +
	"docs/guard.md says how an API server gets one")

// errNoPath is why a client is not answered.
var errNoPath = errors.New("the guard answers only at the path by which ValidatingWebhookConfiguration quartermaster-guard has API servers ask it, or had until a while ago")

// OnlyAt has a handler answer only at the paths at which API servers ask. All others get 401, before anything of their
// requests is read.
func OnlyAt(asked func(ctx context.Context, path string) bool, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !asked(r.Context(), r.URL.Path) {
			fail(w, http.StatusUnauthorized, errNoPath)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// Authorities returns what client certificates are verified by, as k8s.io/apiserver's
// CAContentProvider does. It is called for each request, so that the authorities can change.
type Authorities = x509request.VerifyOptionFunc

// OnlyClientsOf has a handler answer only clients with a certificate by one of the authorities. All
// others get 401, before anything of their requests is read. The server has to ask for certificates.
func OnlyClientsOf(authorities Authorities, handler http.Handler) http.Handler {
	verifier := x509request.NewDynamic(authorities, x509request.UserConversionFunc(anybody))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, verified, err := verifier.AuthenticateRequest(r)
		switch {
		case err != nil:
			fail(w, http.StatusUnauthorized, fmt.Errorf("the guard answers only to clients with a certificate by an authority in its --client-ca-file: %w", err))
		case !verified:
			fail(w, http.StatusUnauthorized, errNoCertificate)
		default:
			handler.ServeHTTP(w, r)
		}
	})
}

// anybody is whoever has a certificate that is verified: what names are in it does not matter.
func anybody([]*x509.Certificate) (*authenticator.Response, bool, error) {
	return &authenticator.Response{}, true, nil
}
