// Package krew writes the manifest by which krew, the manager of kubectl plugins, installs kubectl devices.
package krew

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/krew/pkg/constants"
	"sigs.k8s.io/krew/pkg/index"
	"sigs.k8s.io/yaml"
)

const (
	// FileName is the name that krew expects of the manifest: the plugin's.
	FileName = "devices.yaml"
	home     = "https://github.com/quartermaster-dra/quartermaster"
)

// An Archive is for one platform, such as linux/amd64.
type Archive struct{ Platform, File, SHA256 string }

// Manifest returns the manifest of a version, such as v0.1.0, whose archives are at the release on GitHub.
func Manifest(version string, archives []Archive) ([]byte, error) {
	plugin := index.Plugin{
		TypeMeta:   metav1.TypeMeta{APIVersion: constants.CurrentAPIVersion, Kind: constants.PluginKind},
		ObjectMeta: metav1.ObjectMeta{Name: strings.TrimSuffix(FileName, constants.ManifestExtension)},
		Spec: index.PluginSpec{
			Version:          version,
			ShortDescription: "Show devices, who holds them, and what would fit",
			Description: "Shows the devices of a cluster (resource.k8s.io): what there is, what is free, who holds it,\n" +
				"why a pod waits, and what would fit. It only reads, with your own rights, and works with\nany scheduler.\n",
			Homepage: home + "/blob/" + version + "/docs/kubectl-devices.md",
		},
	}
	for _, archive := range archives {
		system, architecture, _ := strings.Cut(archive.Platform, "/")
		program := "kubectl-devices"
		if system == "windows" {
			program += ".exe"
		}
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, index.Platform{
			URI: home + "/releases/download/" + version + "/" + archive.File, Sha256: archive.SHA256, Bin: program,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"os": system, "arch": architecture}},
		})
	}
	text, err := yaml.Marshal(plugin)
	if err != nil {
		return nil, fmt.Errorf("manifest for krew: %w", err)
	}
	return text, nil
}
