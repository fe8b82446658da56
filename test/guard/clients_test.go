package guard

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/quartermaster-dra/quartermaster/internal/guard/webhook"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestOnlyAPIServersAreAnswered: with --client-ca-file, whoever has no certificate cannot ask about anything,
// while API servers, which show one, are answered as ever; and so they are beside a crowd.
func TestOnlyAPIServersAreAnswered(t *testing.T) {
	g, s := installGuards(t, admissionregistrationv1.Fail), newTenant(t, "certificates", 8)
	process := g.start("--client-ca-file=" + cluster.ControlPlane.WebhookClientCA())
	require.Equal(t, process, g.decider(), "who looks after it needs no certificate")
	s.guarded()
	s.claims("one", "two")
	registered, err := g.webhook(t.Context())
	require.NoError(t, err)
	a := &attacker{tenant: s, process: process, client: trusting(registered.ClientConfig.CABundle), url: *registered.ClientConfig.URL, known: s.stored("two")}
	_, err = a.answer(t.Context(), a.question(a.known, a.allocation("gpu-1"), nil))
	require.ErrorContains(t, err, "the guard answers 401")
	require.NoError(t, s.allocate(t.Context(), "one", "gpu-1"))
	require.NoError(t, s.release(t.Context(), "one"))
	a.crowds(t)
	require.NoError(t, process.Err())
}

// crowd is how many connections there are that bring nothing.
const crowd = 2 * webhook.MaxConnections

// crowds opens a crowd of connections that bring nothing while API servers ask.
func (a *attacker) crowds(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), attackTime(t))
	defer stop()
	for range crowd {
		connection, err := net.Dial("tcp", a.process.Address())
		require.NoError(t, err)
		defer connection.Close()
	}
	writes, err := repeated(ctx, func() error { return a.allocated(t.Context()) })
	require.NoError(t, err)
	a.Eventually("see the guard close some of a crowd", func(ctx context.Context) error {
		metrics, err := harness.ReadGuardMetrics(ctx, a.process)
		if closed := metrics.Sum("quartermaster_guard_crowded_connections_total"); err == nil && closed < crowd-webhook.MaxConnections {
			return fmt.Errorf("it has closed %.0f", closed)
		}
		return err
	})
	t.Logf("%d connections that bring nothing; allocations, through the API server: %s", crowd, quantiles(writes))
}
