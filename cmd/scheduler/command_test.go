package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// flag has the parts of a flag that users see.
type flag struct {
	Shorthand, Default, Type, Usage, Deprecated string
	Hidden                                      bool
}

func flagsOf(cmd *cobra.Command) map[string]flag {
	result := make(map[string]flag)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		result[f.Name] = flag{f.Shorthand, f.DefValue, f.Value.Type(), f.Usage, f.Deprecated, f.Hidden}
	})
	return result
}

// The command is assembled here, so only this test keeps its flags like upstream's.
func TestCommandHasTheFlagsOfKubeScheduler(t *testing.T) {
	want, got := flagsOf(app.NewSchedulerCommand()), flagsOf(newCommand())
	require.Greater(t, len(want), 50)
	require.Contains(t, slices.Collect(maps.Keys(want)), "feature-gates")
	for _, name := range guardFlags {
		require.Contains(t, got, name)
		delete(got, name)
	}
	require.Empty(t, cmp.Diff(want, got), "kube-scheduler's (-), ours (+)")
}

// guardFlags are the flags that kube-scheduler does not have.
var guardFlags = []string{
	"guard", "guard-register", "guard-service", "guard-mode", "guard-failure-policy", "guard-request-timeout", "guard-kube-api-qps",
	"guard-client-ca-file", "guard-bind-address", "guard-secure-port", "guard-cert-dir", "guard-tls-cert-file", "guard-tls-private-key-file",
	"guard-tls-cipher-suites", "guard-tls-curve-preferences", "guard-tls-min-version", "guard-tls-sni-cert-key", "guard-http2-max-streams-per-connection",
	"guard-disable-http2-serving", "guard-permit-port-sharing", "guard-permit-address-sharing",
	"guard-leader-elect", "guard-leader-elect-lease-duration", "guard-leader-elect-renew-deadline", "guard-leader-elect-retry-period",
	"guard-leader-elect-resource-lock", "guard-leader-elect-resource-name", "guard-leader-elect-resource-namespace",
}

func TestCommandTakesNoArguments(t *testing.T) {
	cmd := newCommand()
	require.Equal(t, app.NewSchedulerCommand().Name(), cmd.Name())
	require.NoError(t, cmd.ValidateArgs(nil))
	require.ErrorContains(t, cmd.ValidateArgs([]string{"surplus"}), "surplus")
}
