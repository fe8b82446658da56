package kubectldevices

import (
	"crypto/tls"
	"io"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// metricsCommand has the certificate, the key and the address of the command that the playground prints.
var metricsCommand = regexp.MustCompile(`^curl -sk --cert "([^"]+)" --key "([^"]+)" (https://\S+)$`)

// metrics does what the command of the playground does: the scheduler answers an administrator.
func metrics(t *testing.T, command string) {
	match := metricsCommand.FindStringSubmatch(command)
	require.NotNil(t, match, command)
	certificate, err := tls.LoadX509KeyPair(match[1], match[2])
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		// The scheduler's certificate is self-signed.
		InsecureSkipVerify: true, Certificates: []tls.Certificate{certificate},
	}}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, match[3], nil)
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode, string(body))
	require.Contains(t, string(body), "\nquartermaster_")
}
