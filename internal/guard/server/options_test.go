package server

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// parse returns the options with all their flags in one set, as a command has them.
func parse(t *testing.T, prefix string, args ...string) (*Options, *pflag.FlagSet) {
	t.Helper()
	o, all := New("guards", prefix), pflag.NewFlagSet("all", pflag.ContinueOnError)
	sets := o.Flags()
	for _, section := range sets.Order {
		all.AddFlagSet(sets.FlagSets[section])
	}
	require.NoError(t, all.Parse(args))
	return o, all
}

// The scheduler has flags of the same names for itself.
func TestPrefix(t *testing.T) {
	t.Parallel()
	o, flags := parse(t, "guard-", "--guard-bind-address=127.0.0.1", "--guard-secure-port=7", "--guard-register=url", "--guard-mode=Warn",
		"--guard-leader-elect-lease-duration=20s")
	require.NoError(t, o.Validate())
	require.Equal(t, "127.0.0.1:7", o.serving.BindAddress.String()+":"+flags.Lookup("guard-secure-port").Value.String())
	require.Equal(t, []string{registerURL, "Warn", "20s"}, []string{o.register, o.mode, o.election.LeaseDuration.Duration.String()})
	_, plain := parse(t, "")
	plain.VisitAll(func(f *pflag.Flag) {
		prefixed := flags.Lookup("guard-" + f.Name)
		require.NotNil(t, prefixed, f.Name)
		require.Equal(t, strings.ReplaceAll(f.Usage, "--", "--guard-"), prefixed.Usage)
		require.Equal(t, f.DefValue, prefixed.DefValue)
	})
	flags.VisitAll(func(f *pflag.Flag) { require.True(t, strings.HasPrefix(f.Name, "guard-"), f.Name) })
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ flag, want string }{
		{"register=dns", `--guard-register="dns" is none of service, url`},
		{"mode=Deny", `--guard-mode="Deny" is none of Enforce, Warn`},
		{"failure-policy=Allow", `--guard-failure-policy="Allow" is none of Ignore, Fail`},
		{"leader-elect=false", "--guard-leader-elect=false: guards have to elect the one that decides"},
		{"request-timeout=0s", "--guard-request-timeout=0s must be more than zero"},
		{"secure-port=99999", "between"},
		{"secure-port=0", "cannot be turned off with 0"},
	} {
		o, _ := parse(t, "guard-", "--guard-"+test.flag)
		require.ErrorContains(t, o.Validate(), test.want)
	}
}

func TestServiceNames(t *testing.T) {
	t.Parallel()
	for service, want := range map[string]string{"g": "g.guards.svc", "kube-system/g": "g.kube-system.svc"} {
		o, _ := parse(t, "", "--service="+service)
		require.Equal(t, []string{want, want + ".cluster.local"}, o.serviceNames())
	}
}
