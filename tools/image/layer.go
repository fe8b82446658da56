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

// programs are what the image has.
var programs = []string{"scheduler", "guard"}

// file is one of a layer. Nobody may write to it.
type file struct {
	name    string
	mode    int64
	content []byte
}

// binariesLayer has the programs for one platform.
func binariesLayer(directory string, created time.Time) (v1.Layer, error) {
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
	return layerOf(created, files...)
}

// rootsLayer has the certificates of public authorities, Mozilla's, of the version in go.mod: the API server may be behind a
// certificate of one of these, and so may be the receiver of traces.
func rootsLayer(created time.Time) (v1.Layer, error) {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // What such an authority may not vouch for cannot be said in this format.
		}
		if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, fmt.Errorf("encode a certificate: %w", err)
		}
	}
	return layerOf(created, file{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o444, content: text.Bytes()})
}

// layerOf makes a layer of files, in their order, with the directories that they are in.
func layerOf(created time.Time, files ...file) (v1.Layer, error) {
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
	header := &tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o555, ModTime: created, Format: tar.FormatPAX}
	if err := w.WriteHeader(header); err != nil {
		return fmt.Errorf("layer: %s: %w", name, err)
	}
	return nil
}
