package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// writeArchive writes the image as an archive of an OCI layout, which `skopeo copy oci-archive:…`, `podman load` and `ctr image import`
// read. Files are in the order of their names and bear no times.
func writeArchive(path string, index v1.ImageIndex, version string) (err error) {
	directory, err := os.MkdirTemp("", "quartermaster-image")
	if err != nil {
		return fmt.Errorf("make a directory for the image: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(directory)) }()
	image, err := layout.Write(directory, empty.Index)
	if err != nil {
		return fmt.Errorf("write the image's layout: %w", err)
	}
	name := map[string]string{"org.opencontainers.image.ref.name": version}
	if err := image.AppendIndex(index, layout.WithAnnotations(name)); err != nil {
		return fmt.Errorf("write the image: %w", err)
	}
	archive, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	w := tar.NewWriter(archive)
	if err := filepath.WalkDir(directory, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || file == directory {
			return err
		}
		return addEntry(w, directory, file, entry)
	}); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return w.Close()
}

func addEntry(w *tar.Writer, directory, file string, entry fs.DirEntry) error {
	name, err := filepath.Rel(directory, file)
	if err != nil {
		return err
	}
	header := &tar.Header{Name: filepath.ToSlash(name), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	if entry.IsDir() {
		header.Typeflag, header.Name, header.Mode = tar.TypeDir, header.Name+"/", 0o755
		return w.WriteHeader(header)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	header.Typeflag, header.Mode, header.Size = tar.TypeReg, 0o644, int64(len(content))
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}
