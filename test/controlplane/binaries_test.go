package controlplane

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFindBinary(t *testing.T) {
	bin := t.TempDir()
	t.Setenv(BinDirEnv, bin)
	write := func(name string, mode os.FileMode) string {
		path := filepath.Join(bin, name)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"), mode))
		return path
	}
	program := write("some-program", 0o755)
	write("not-executable", 0o644)
	require.NoError(t, os.Mkdir(filepath.Join(bin, "a-folder"), 0o755))

	found, err := FindBinary("some-program")
	require.NoError(t, err)
	require.Equal(t, program, found)

	for _, name := range []string{"not-executable", "a-folder", "missing"} {
		_, err := FindBinary(name)
		require.ErrorContains(t, err, filepath.Join(bin, name), "the error says where it looked")
		require.ErrorContains(t, err, "make build", "the error says what to do")
	}
}

func TestSourceTree(t *testing.T) {
	wd, err := os.Getwd()
	require.NoError(t, err)
	root, found := sourceTree(wd)
	require.True(t, found)
	require.FileExists(t, filepath.Join(root, "test", "controlplane", "binaries.go"))

	// A module inside the tree is not the tree, but lies in it.
	inner, found := sourceTree(filepath.Join(root, "tools", "kwok"))
	require.True(t, found)
	require.Equal(t, root, inner)

	_, found = sourceTree(t.TempDir())
	require.False(t, found)
}
