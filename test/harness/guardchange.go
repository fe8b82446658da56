package harness

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/guard/registration"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

// ShortGuardLease are the arguments with which a guard is replaced within seconds.
var ShortGuardLease = []string{"--leader-elect-lease-duration=2s", "--leader-elect-renew-deadline=1500ms", "--leader-elect-retry-period=200ms"}

// asking is the client for requests about the state of a guard. It accepts any certificate.
var asking = http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// GuardDecides returns an error unless a guard reports that it is the one that decides.
func GuardDecides(ctx context.Context, guard *scheduler.Process) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+guard.Address()+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := asking.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", request.URL, response.Status)
	}
	return nil
}

// GuardIsAsked returns an error unless API servers ask a guard.
func (c *Cluster) GuardIsAsked(ctx context.Context, guard *scheduler.Process) error {
	config, err := c.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, registration.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	asked, err := url.Parse(*config.Webhooks[0].ClientConfig.URL)
	if err == nil && asked.Host != guard.Address() {
		err = fmt.Errorf("API servers ask %s, and not %s, which decides", asked, guard.Address())
	}
	return err
}
