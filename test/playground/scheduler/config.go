package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const configurationKind = "KubeSchedulerConfiguration"

// configFor returns the KubeSchedulerConfiguration in config (YAML or JSON)
// with clientConnection.kubeconfig set to kubeconfig and, if leaderElect is not
// nil, leaderElection.leaderElect set to it. Everything else is kept.
func configFor(config []byte, kubeconfig string, leaderElect *bool) ([]byte, error) {
	fields := map[string]any{}
	if err := yaml.Unmarshal(config, &fields); err != nil {
		return nil, fmt.Errorf("parse the scheduler configuration: %w; pass a %s as YAML", err, configurationKind)
	}
	if kind := fields["kind"]; kind != configurationKind {
		return nil, fmt.Errorf("the scheduler configuration has kind %q, want %q; pass the file's content, not a ConfigMap around it",
			fmt.Sprint(kind), configurationKind)
	}
	if err := setField(fields, "clientConnection", "kubeconfig", kubeconfig); err != nil {
		return nil, err
	}
	if leaderElect != nil {
		if err := setField(fields, "leaderElection", "leaderElect", *leaderElect); err != nil {
			return nil, err
		}
	}
	out, err := yaml.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encode the scheduler configuration: %w", err)
	}
	return out, nil
}

// setField sets fields[section][name], creating the section if needed.
func setField(fields map[string]any, section, name string, value any) error {
	switch existing := fields[section].(type) {
	case nil:
		fields[section] = map[string]any{name: value}
	case map[string]any:
		existing[name] = value
	default:
		return fmt.Errorf("the scheduler configuration's %s is a %T, want an object; correct the file", section, existing)
	}
	return nil
}

// gateFlags turns feature gates on or off on a command line, always in the same order.
func gateFlags(gates map[string]bool) []string {
	if len(gates) == 0 {
		return nil
	}
	var values []string
	for _, gate := range slices.Sorted(maps.Keys(gates)) {
		values = append(values, fmt.Sprintf("%s=%t", gate, gates[gate]))
	}
	return []string{"--feature-gates=" + strings.Join(values, ",")}
}
