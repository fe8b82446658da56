package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// programs lists the programs in the image.
var programs = []string{"scheduler", "guard"}

// directoryMode is that of all directories of the image.
const directoryMode = 0o555

// file is one of a layer. Nobody may write to it.
type file struct {
	name    string
	mode    int64
	content []byte
}

// binaryFiles are the programs for one platform.
func binaryFiles(directory string) ([]file, error) {
	var files []file
	for _, program := range programs {
		content, err := os.ReadFile(filepath.Join(directory, program))
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("there is no %s in %s; `make image` builds it", program, directory)
		}
		if err != nil {
			return nil, fmt.Errorf("read a binary: %w", err)
		}
		files = append(files, file{name: program, mode: 0o555, content: content})
	}
	return files, nil
}

// rootFiles have the certificates of public authorities, Mozilla's, of the version in go.mod: the API server may be behind a
// certificate of one of these, and so may be the receiver of traces.
func rootFiles() ([]file, error) {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // What such an authority may not vouch for cannot be said in this format.
		}
		if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, fmt.Errorf("encode a certificate: %w", err)
		}
	}
	return []file{{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o444, content: text.Bytes()}}, nil
}

// layerOf makes a layer of files, in their order, with the directories that they are in.
func layerOf(created time.Time, files []file) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	known := map[string]bool{".": true}
	for _, f := range files {
		if err := addDirectories(w, filepath.Dir(f.name), created, known); err != nil {
			return nil, err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: created, Format: tar.FormatPAX}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("layer: %s: %w", f.name, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("layer: %s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	return layer, nil
}

// addDirectories adds a directory and those that it is in, the outermost first.
func addDirectories(w *tar.Writer, name string, created time.Time, known map[string]bool) error {
	if known[name] {
		return nil
	}
	known[name] = true
	if err := addDirectories(w, filepath.Dir(name), created, known); err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: directoryMode, ModTime: created, Format: tar.FormatPAX}
	if err := w.WriteHeader(header); err != nil {
		return fmt.Errorf("layer: %s: %w", name, err)
	}
	return nil
}
