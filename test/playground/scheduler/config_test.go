package scheduler

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

func TestConfigFor(t *testing.T) {
	t.Parallel()
	const config = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 200, kubeconfig: /from/the/file}
leaderElection: {leaderElect: true, resourceName: quartermaster}
profiles: [{schedulerName: quartermaster}]
`
	for name, tc := range map[string]struct {
		config  string
		elect   *bool
		want    map[string]any
		wantErr string
	}{
		"keeps the rest": {
			config: config,
			want: map[string]any{
				"clientConnection": map[string]any{"qps": 200.0, "kubeconfig": "/mine"},
				"leaderElection":   map[string]any{"leaderElect": true, "resourceName": "quartermaster"},
				"profiles":         []any{map[string]any{"schedulerName": "quartermaster"}},
			},
		},
		"switches leader election off": {
			config: config,
			elect:  ptr.To(false),
			want: map[string]any{
				"clientConnection": map[string]any{"qps": 200.0, "kubeconfig": "/mine"},
				"leaderElection":   map[string]any{"leaderElect": false, "resourceName": "quartermaster"},
				"profiles":         []any{map[string]any{"schedulerName": "quartermaster"}},
			},
		},
		"makes sections": {
			config: "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration}",
			elect:  ptr.To(true),
			want: map[string]any{
				"clientConnection": map[string]any{"kubeconfig": "/mine"},
				"leaderElection":   map[string]any{"leaderElect": true},
			},
		},
		"no YAML":      {config: "{", wantErr: "parse the scheduler configuration"},
		"other kind":   {config: "kind: Pod", wantErr: `has kind "Pod"`},
		"odd section":  {config: "{kind: KubeSchedulerConfiguration, clientConnection: 7}", wantErr: "clientConnection is a float64"},
		"empty":        {config: "", wantErr: "has kind"},
		"odd election": {config: "{kind: KubeSchedulerConfiguration, leaderElection: []}", elect: ptr.To(true), wantErr: "leaderElection is a []interface {}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := configFor([]byte(tc.config), "/mine", tc.elect)
			if tc.wantErr != "" {
				require.ErrorContains(t, err, tc.wantErr)
				return
			}
			require.NoError(t, err)
			fields := map[string]any{}
			require.NoError(t, yaml.Unmarshal(got, &fields))
			require.Equal(t, "kubescheduler.config.k8s.io/v1", fields["apiVersion"])
			delete(fields, "apiVersion")
			delete(fields, "kind")
			require.Equal(t, tc.want, fields)
		})
	}
}

func TestGateFlags(t *testing.T) {
	t.Parallel()
	require.Empty(t, gateFlags(nil))
	require.Equal(t, []string{"--feature-gates=A=true,B=false,C=true"}, gateFlags(map[string]bool{"B": false, "C": true, "A": true}))
}
