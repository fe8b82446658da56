package tutorial

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// standIn replaces a text of the document before it is run, because it cannot be had here.
type standIn struct {
	text, instead string
	because       string
}

// standIns are all of them, but for one that has no text in the document: the "cluster of your own" is the ownCluster, because there
// is no container engine that kind or the pods of the Deployment could be run with.
func standIns(root, registry string) []standIn {
	return []standIn{
		{
			text:    "git clone https://github.com/quartermaster-dra/quartermaster\n",
			instead: "mkdir quartermaster\ntar -C '" + root + "' --exclude=./bin/compat --exclude=./bin/bench -c . | tar -C quartermaster -x\n",
			because: "the tree that is tested is this one, whatever is published; with its bin, so that nothing is built twice",
		},
		{
			text:    "registry.example.com",
			instead: registry,
			because: "the reader puts a registry of their own in its place; here it is go-containerregistry's, in memory",
		},
	}
}

// replaced puts the stand-ins into a document. Each has to be of use.
func replaced(t *testing.T, document string, all []standIn) string {
	t.Helper()
	for _, s := range all {
		require.Contains(t, document, s.text, "this stand-in is of no use any more (%s)", s.because)
		document = strings.ReplaceAll(document, s.text, s.instead)
	}
	return document
}

// environment is that of somebody who has a home of their own, and who was not started by make.
func environment(home string, goVariables []string) []string {
	own := []string{"HOME", "KUBECONFIG", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "GNUMAKEFLAGS",
		"IMAGE", "IMAGE_PLATFORMS", "PUSH", "QUARTERMASTER_BIN", "REGISTRY", "DOCKER_CONFIG"}
	kept := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(own, name)
	})
	return slices.Concat(kept, goVariables, []string{"HOME=" + home})
}
