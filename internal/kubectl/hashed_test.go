package kubectl

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// TestDump: commands print the same for a dump as for the cluster.
func TestDump(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dump")
	_, errOut, err := ask(t, server(broken(), "", ""), "dump", "-f", file)
	require.NoError(t, err)
	require.Contains(t, errOut, "Wrote "+file+": 4 nodes, 6 ResourceSlices, 11 claims, 8 pods.")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	for _, args := range []string{"", "list -o wide", "holders", "holders pod/train", "-o json"} {
		live, _, err := ask(t, server(broken(), "", ""), strings.Fields(args)...)
		require.NoError(t, err)
		o, out, _ := testOptions(t)
		root := newRoot(o)
		root.SetArgs(append(strings.Fields(args), "--from", file))
		require.NoError(t, root.ExecuteContext(t.Context()))
		require.Equal(t, live, out.String(), args)
	}
	o, _, _ := testOptions(t)
	o.screen.Terminal = true
	root := newRoot(o)
	root.SetArgs([]string{"dump"})
	require.ErrorContains(t, root.ExecuteContext(t.Context()), "would garble the terminal")
}

var pseudonyms = regexp.MustCompile(`n[0-9]+-[0-9a-f]{8}`)

// TestHashedDump: with other names, all else that is said stays the same.
func TestHashedDump(t *testing.T) {
	o, out, _ := testOptions(t)
	o.connect = connectTo(server(broken(), "", ""))
	root := newRoot(o)
	root.SetArgs([]string{"dump", "--hash-names"})
	require.NoError(t, root.ExecuteContext(t.Context()))
	hashed, err := whatif.ReadDump(bytes.NewReader(out.Bytes()))
	require.NoError(t, err)

	text, err := json.Marshal(hashed)
	require.NoError(t, err)
	original := broken()
	for _, node := range original.Nodes {
		require.NotContains(t, string(text), node.Name)
	}
	for _, claim := range original.Claims {
		require.NotContains(t, string(text), `"`+claim.Name+`"`)
		require.NotContains(t, string(text), `"`+claim.Namespace+`"`)
		require.NotContains(t, string(text), string(claim.UID))
	}
	for _, args := range []string{"", "-o wide", "list -o wide", "holders", "holders -o wide"} {
		want, err := run(t, original, strings.Fields(args)...)
		require.NoError(t, err)
		got, err := run(t, hashed, strings.Fields(args)...)
		require.NoError(t, err)
		require.NotEqual(t, want, got)
		require.Equal(t, facts(want, allNames(original)), facts(got, nil), args)
	}
}

func allNames(o whatif.Objects) *regexp.Regexp {
	var all []string
	for _, node := range o.Nodes {
		all = append(all, node.Name, "rack-"+node.Name)
	}
	for _, claim := range o.Claims {
		all = append(all, claim.Name, claim.Namespace)
	}
	for _, pod := range o.Pods {
		all = append(all, pod.Name)
	}
	all = append(all, "fabric", "was-here")
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return regexp.MustCompile(`\b(` + strings.Join(all, "|") + `)\b`)
}

// facts are all words but names, in the alphabetical order of lines: that of numbers in names is another one.
func facts(text string, names *regexp.Regexp) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if names != nil {
			line = names.ReplaceAllString(line, "NAME")
		} else {
			line = pseudonyms.ReplaceAllString(line, "NAME")
		}
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	slices.Sort(lines)
	return lines
}
