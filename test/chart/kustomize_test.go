package chart

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomize builds a kustomization in a folder beside those of manifests.
func kustomize(t *testing.T, kustomization string, files map[string]string) objects {
	t.Helper()
	const folder = "manifests/combination"
	memory := filesys.MakeFsInMemory()
	require.NoError(t, filepath.WalkDir(manifestsFolder, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(name, ".go") {
			return err
		}
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		relative, err := filepath.Rel(manifestsFolder, name)
		require.NoError(t, err)
		return memory.WriteFile(path.Join("manifests", filepath.ToSlash(relative)), content)
	}))
	require.NoError(t, memory.WriteFile(folder+"/kustomization.yaml", []byte(kustomization)))
	for name, content := range files {
		require.NoError(t, memory.WriteFile(path.Join(folder, name), []byte(content)))
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(memory, folder)
	require.NoError(t, err, kustomization)
	text, err := resources.AsYaml()
	require.NoError(t, err)
	return decode(t, string(text))
}

// folder builds one of the kustomizations of manifests.
func folder(t *testing.T, name string) objects {
	t.Helper()
	return kustomize(t, "resources: [../"+name+"]\n", nil)
}

// gangConfig is manifests/gang-scheduling/scheduler-config.yaml as it is, or as a user would change it for the place of the default
// scheduler.
func gangConfig(t *testing.T, mode string) string {
	t.Helper()
	text, err := os.ReadFile(manifestsFolder + "/gang-scheduling/scheduler-config.yaml")
	require.NoError(t, err)
	if mode != "replace-default" {
		return string(text)
	}
	return strings.NewReplacer(
		"schedulerName: quartermaster", "schedulerName: default-scheduler",
		"resourceName: quartermaster", "resourceName: kube-scheduler",
	).Replace(string(text)) + placingAll
}

// placingAll are the arguments of the plugin in manifests/replace-default.
const placingAll = `    pluginConfig:
      - name: Quartermaster
        args:
          placePodsWithoutDevices: true
`

// replaceConfig is the part of a kustomization that exchanges the configuration of the scheduler.
const replaceConfig = `
configMapGenerator:
  - name: quartermaster-config
    namespace: kube-system
    behavior: replace
    files: [scheduler-config.yaml]
`

// restrictToo adds to guard-cert-manager what guard-restricted adds to guard.
const restrictToo = `
patches:
  - path: api-servers.yaml
  - target: {kind: Deployment, name: quartermaster-guard}
    patch: |
      - {op: add, path: /spec/template/spec/containers/0/command/-, value: --client-ca-file=/etc/quartermaster-guard-clients/ca.crt}
      - op: add
        path: /spec/template/spec/containers/0/volumeMounts/-
        value: {name: client-ca, mountPath: /etc/quartermaster-guard-clients, readOnly: true}
      - op: add
        path: /spec/template/spec/volumes/-
        value: {name: client-ca, configMap: {name: quartermaster-guard-client-ca}}
`
