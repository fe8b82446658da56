package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// manifest has what is needed of an index, a manifest and a configuration of the OCI image specification.
type manifest struct {
	Manifests []descriptor `json:"manifests"`
	Layers    []descriptor `json:"layers"`
	Config    struct {
		descriptor
		User       string   `json:"User"`
		Entrypoint []string `json:"Entrypoint"`
	} `json:"config"`
}

type descriptor struct {
	Digest   string `json:"digest"`
	Platform struct {
		Architecture string `json:"architecture"`
	} `json:"platform"`
}

// layout are the files of an OCI layout, by name.
type layout map[string][]byte

func readLayout(t *testing.T, archive string) layout {
	t.Helper()
	content, err := os.ReadFile(archive)
	require.NoError(t, err)
	files := layout{}
	each(t, bytes.NewReader(content), func(header *tar.Header, content []byte) { files[header.Name] = content })
	return files
}

// each calls a function for each entry of an archive.
func each(t *testing.T, archive io.Reader, do func(*tar.Header, []byte)) {
	t.Helper()
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		do(header, content)
	}
}

func (l layout) read(t *testing.T, name string) (m manifest) {
	t.Helper()
	require.Contains(t, l, name)
	require.NoError(t, json.Unmarshal(l[name], &m))
	return m
}

func (d descriptor) file() string { return "blobs/" + strings.ReplaceAll(d.Digest, ":", "/") }

// image is the manifest and the configuration for this machine.
func (l layout) image(t *testing.T) (image, config manifest) {
	t.Helper()
	index := l.read(t, l.read(t, "index.json").Manifests[0].file())
	for _, of := range index.Manifests {
		if of.Platform.Architecture == runtime.GOARCH {
			image = l.read(t, of.file())
			return image, l.read(t, image.Config.file())
		}
	}
	t.Fatalf("there is no image for %s", runtime.GOARCH)
	return image, config
}

// unpack makes a directory of the image's layers, as a container runtime does.
func (l layout) unpack(t *testing.T, image manifest, root string) {
	t.Helper()
	for _, layer := range image.Layers {
		compressed, err := gzip.NewReader(bytes.NewReader(l[layer.file()]))
		require.NoError(t, err)
		each(t, compressed, func(header *tar.Header, content []byte) {
			path := filepath.Join(root, header.Name)
			if header.Typeflag == tar.TypeDir {
				require.NoError(t, os.MkdirAll(path, 0o755))
				return
			}
			require.NoError(t, os.WriteFile(path, content, header.FileInfo().Mode()))
		})
	}
}
