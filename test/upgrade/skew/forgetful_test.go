package skew

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// object is an API object as JSON.
type object = map[string]any

// startForgetful starts a proxy that takes something out of each ResourceClaim that the API server answers with, and
// returns its address and certificate. A client that reads JSON through it is like one that does not know these fields.
func startForgetful(t *testing.T, c *harness.Cluster, forget func(claim object)) (address string, certificate []byte) {
	t.Helper()
	admin := c.ControlPlane.AdminConfig()
	// Who asks is up to the token in the request.
	transport, err := rest.TransportFor(&rest.Config{Host: admin.Host, TLSClientConfig: rest.TLSClientConfig{CAFile: admin.CAFile}, DisableCompression: true})
	require.NoError(t, err)
	target, err := url.Parse(admin.Host)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Accept-Encoding")
		},
		Transport:      transport,
		FlushInterval:  -1, // Events of a watch must not wait for more.
		ModifyResponse: func(response *http.Response) error { return forgetIn(response, forget) },
		ErrorLog:       log.New(io.Discard, "", 0),
	})
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// forgetIn changes an answer about claims.
func forgetIn(response *http.Response, forget func(object)) error {
	request := response.Request.URL
	if !strings.Contains(request.Path, "/resourceclaims") || response.StatusCode >= http.StatusMultipleChoices {
		return nil
	}
	if format := response.Header.Get("Content-Type"); !strings.HasPrefix(format, "application/json") {
		return fmt.Errorf("the answer to %s is %s; the client has to ask for JSON", request, format)
	}
	if watch, _ := strconv.ParseBool(request.Query().Get("watch")); watch {
		response.Body = forgetEvents(response.Body, forget)
		response.ContentLength = -1
		response.Header.Del("Content-Length")
		return nil
	}
	answer, err := decode(json.NewDecoder(response.Body))
	if err != nil {
		return err
	}
	forgetAll(answer, forget)
	text, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	response.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return nil
}

// forgetEvents is the body of a watch with changed objects.
func forgetEvents(body io.ReadCloser, forget func(object)) io.ReadCloser {
	read, write := io.Pipe()
	go func() {
		defer body.Close()
		events := json.NewDecoder(body)
		for {
			event, err := decode(events)
			if err == nil {
				forgetAll(event["object"].(object), forget)
				err = json.NewEncoder(write).Encode(event)
			}
			if err != nil {
				write.CloseWithError(err)
				return
			}
		}
	}()
	return read
}

// forgetAll changes a claim or a list of claims.
func forgetAll(answer object, forget func(object)) {
	items, isList := answer["items"].([]any)
	for _, item := range items {
		forget(item.(object))
	}
	if !isList {
		forget(answer)
	}
}

func decode(decoder *json.Decoder) (value object, err error) {
	decoder.UseNumber()
	return value, decoder.Decode(&value)
}
