package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/manifests"
)

// TestOnePluginAllocatesDevices: a profile with both plugins that allocate devices is refused, however they were enabled, with
// what to write. Another profile may have the other plugin.
func TestOnePluginAllocatesDevices(t *testing.T) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nclientConnection:\n  qps: 1\nprofiles:\n"
	const alone = "- {schedulerName: alone, plugins: {multiPoint: {disabled: [{name: DynamicResources}], enabled: [{name: Quartermaster}]}}}\n"
	for name, test := range map[string]struct{ profiles, refused string }{
		"DynamicResources by default": {"- {schedulerName: both, plugins: {multiPoint: {enabled: [{name: Quartermaster}]}}}\n", "both"},
		"at one extension point":      {"- {schedulerName: both, plugins: {score: {enabled: [{name: Quartermaster}]}}}\n", "both"},
		"DynamicResources at one extension point": {
			"- {schedulerName: both, plugins: {multiPoint: {disabled: [{name: DynamicResources}], enabled: [{name: Quartermaster}]}, " +
				"filter: {enabled: [{name: DynamicResources}]}}}\n", "both",
		},
		"the second profile":           {alone + "- {schedulerName: second, plugins: {multiPoint: {enabled: [{name: Quartermaster}]}}}\n", "second"},
		"each in a profile of its own": {profiles: alone + "- {schedulerName: in-tree}\n"},
		"none":                         {profiles: "- {schedulerName: in-tree}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := setUpWith(t, []byte(head+test.profiles))
			if test.refused == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "profile "+test.refused+": plugins Quartermaster and DynamicResources are both enabled")
			require.ErrorContains(t, err, "multiPoint: {disabled: [{name: DynamicResources}]}")
		})
	}
	for _, overlay := range []string{manifests.Secondary, manifests.ReplaceDefault, manifests.GangScheduling} {
		t.Run(overlay, func(t *testing.T) {
			config, err := manifests.SchedulerConfig(overlay)
			require.NoError(t, err)
			_, err = setUpWith(t, config)
			require.NoError(t, err)
		})
	}
}
