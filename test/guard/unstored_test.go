package guard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestAsksForWhatIsNeverStored: whoever reaches the port, knows the path, and may read claims of one namespace, asks for all devices for
// one of them, again and again. Others have the devices all the same, but for a part of the time.
func TestAsksForWhatIsNeverStored(t *testing.T) {
	harness.Long(t, "others get devices for a part of the time only")
	g, s := installGuards(t, admissionregistrationv1.Fail), newTenant(t, "asked-for", wantedDevices)
	process := g.start()
	g.decider()
	s.guarded()
	for i := range wantedDevices {
		s.claims(wanting(i))
	}
	asking := &tenant{cluster.NewSpace(t, "asking", "", 1)}
	asking.Create(builder.Claim("greedy", s.Want(wantedDevices)).In(asking.Name).Obj())
	webhook, err := g.webhook(t.Context())
	require.NoError(t, err)
	a := &attacker{tenant: s, process: process, client: trusting(webhook.ClientConfig.CABundle), url: *webhook.ClientConfig.URL}
	everything := s.allocation("gpu-0")
	for i := 1; i < wantedDevices; i++ {
		everything.Devices.Results = append(everything.Devices.Results, s.allocation(fmt.Sprintf("gpu-%d", i)).Devices.Results...)
	}
	allowed := 0
	ask := func(ctx context.Context) (string, error) {
		response, err := a.answer(ctx, a.question(asking.stored("greedy"), everything, nil))
		if err != nil {
			return "", err
		}
		if response.Allowed {
			allowed++
			return "", errors.New("it was allowed")
		}
		return response.Result.Message, nil
	}
	known := a.url
	for _, guessed := range []string{"/guard", "/" + strings.Repeat("a", 26)} {
		a.url = "https://" + process.Address() + guessed
		_, err := ask(t.Context())
		require.ErrorContains(t, err, "the guard answers 401", "who does not know the path")
	}
	a.url = known
	began := time.Now()
	s.Eventually("see the guard have enough of it", func(ctx context.Context) error {
		message, err := ask(ctx)
		if err == nil && !strings.Contains(message, "earlier allocations that the guard allowed for claims of its namespace were not stored") {
			err = errors.New(message)
		}
		return err
	})
	require.NotZero(t, allowed)
	t.Logf("%d questions were allowed within %s", allowed, time.Since(began).Round(time.Millisecond))
	s.Eventually("have every device", s.allocateAll)
	_, err = ask(t.Context())
	require.NoError(t, err, "others have the devices")
	require.NoError(t, s.releaseAll(t.Context()))
}
