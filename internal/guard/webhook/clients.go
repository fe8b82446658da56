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

// errNoCertificate refuses a client without a certificate.
var errNoCertificate = errors.New("the guard answers only to clients with a certificate by an authority in its --client-ca-file, and this one shows none; " +
	"see docs/guard.md for a certificate of an API server")

// errNoPath refuses a client at an unknown path.
var errNoPath = errors.New("the guard answers only at the path in ValidatingWebhookConfiguration quartermaster-guard, and for a while at its previous path")

// OnlyAt restricts a handler to the paths that API servers use. Other requests get 401 before the server reads their
// bodies.
func OnlyAt(asked func(ctx context.Context, path string) bool, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !asked(r.Context(), r.URL.Path) {
			fail(w, http.StatusUnauthorized, errNoPath)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// Authorities returns the options that verify client certificates, like the CAContentProvider of k8s.io/apiserver. It
// is called for each request, so the authorities can change.
type Authorities = x509request.VerifyOptionFunc

// OnlyClientsOf restricts a handler to clients with a certificate from one of the authorities. Other requests get 401
// before the server reads their bodies. The server must ask for certificates.
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

// anybody accepts every client with a verified certificate, whatever names the certificate has.
func anybody([]*x509.Certificate) (*authenticator.Response, bool, error) {
	return &authenticator.Response{}, true, nil
}
