package web

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"strings"
)

// NewToken returns 128 random bits as text.
func NewToken() string {
	bits := make([]byte, 16)
	_, _ = rand.Read(bits) // never fails
	return hex.EncodeToString(bits)
}

// guard only lets requests through that have the token in their path and come from the page itself.
//
// A token in the path needs no cookie: browsers would send a cookie to other servers on this machine as well, and
// with requests of foreign pages. EventSource could not send the token in a header.
type guard struct {
	token string
	port  string
	next  http.Handler
}

// securityHeaders keep the page from loading anything from elsewhere, from being framed, and from revealing its
// address, which contains the token.
var securityHeaders = map[string]string{
	"Content-Security-Policy":      "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cache-Control":                "no-store",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range securityHeaders {
		w.Header().Set(name, value)
	}
	// Refuse foreign host names that resolve to loopback (DNS rebinding).
	if !g.isOurs(r.Host) {
		http.Error(w, "this server is for requests to 127.0.0.1 only", http.StatusForbidden)
		return
	}
	if !g.isFromOurPage(r) {
		http.Error(w, "pages of other servers must not ask this one", http.StatusForbidden)
		return
	}
	token, rest, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if subtle.ConstantTimeCompare([]byte(token), []byte(g.token)) != 1 {
		http.Error(w, "the token in the address is wrong; take the address that kubectl devices web has printed", http.StatusForbidden)
		return
	}
	if !found {
		http.Redirect(w, r, "/"+g.token+"/", http.StatusMovedPermanently)
		return
	}
	inner := r.Clone(r.Context())
	inner.URL.Path, inner.URL.RawPath = "/"+rest, ""
	g.next.ServeHTTP(w, inner)
}

func (g *guard) isOurs(host string) bool {
	return host == net.JoinHostPort("127.0.0.1", g.port) || host == net.JoinHostPort("localhost", g.port)
}

// isFromOurPage checks the headers in which browsers state the origin of a request. Other clients do not send them.
func (g *guard) isFromOurPage(r *http.Request) bool {
	if origins, present := r.Header["Origin"]; present {
		for _, origin := range origins {
			host, isHTTP := strings.CutPrefix(origin, "http://")
			if !isHTTP || !g.isOurs(host) || host != r.Host {
				return false
			}
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	// The user follows a link to the page, and the browser opens it as a document.
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}
