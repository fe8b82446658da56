package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// writeArchive writes the image as an archive that is an OCI layout, with the name that the manifests ask for, and with the list that
// `docker load` reads where Docker has no store for OCI layouts. Files are in the order of their names and bear no times.
func writeArchive(path string, index v1.ImageIndex, reference name.Tag) (err error) {
	directory, err := os.MkdirTemp("", "quartermaster-image")
	if err != nil {
		return fmt.Errorf("make a directory for the image: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(directory)) }()
	image, err := layout.Write(directory, empty.Index)
	if err != nil {
		return fmt.Errorf("write the image's layout: %w", err)
	}
	if err := image.AppendIndex(index, layout.WithAnnotations(nameAnnotations(reference))); err != nil {
		return fmt.Errorf("write the image: %w", err)
	}
	if err := writeDockerManifest(directory, index, reference); err != nil {
		return err
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

// fullName is a reference as container runtimes store it: those of Docker Hub begin with docker.io.
func fullName(reference name.Tag) string {
	return strings.Replace(reference.Name(), name.DefaultRegistry+"/", "docker.io/", 1)
}

// nameAnnotations give the image its name: containerd reads the first, and with it kind, Docker and Podman; older releases of Podman
// read the second.
func nameAnnotations(reference name.Tag) map[string]string {
	return map[string]string{"io.containerd.image.name": fullName(reference), "org.opencontainers.image.ref.name": fullName(reference)}
}

// dockerImage is one image of an archive in Docker's format. The files that it names are those of the OCI layout.
type dockerImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// writeDockerManifest lists the image of the first platform. Docker's classic store cannot keep several platforms under one name.
func writeDockerManifest(directory string, index v1.ImageIndex, reference name.Tag) error {
	list, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("list the image for Docker: %w", err)
	}
	image, err := index.Image(list.Manifests[0].Digest)
	if err != nil {
		return fmt.Errorf("list the image for Docker: %w", err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		return fmt.Errorf("list the image for Docker: %w", err)
	}
	listed := dockerImage{Config: blob(manifest.Config.Digest), RepoTags: []string{fullName(reference)}}
	for _, layer := range manifest.Layers {
		listed.Layers = append(listed.Layers, blob(layer.Digest))
	}
	content, err := json.Marshal([]dockerImage{listed})
	if err != nil {
		return fmt.Errorf("list the image for Docker: %w", err)
	}
	if err := os.WriteFile(filepath.Join(directory, "manifest.json"), content, 0o644); err != nil {
		return fmt.Errorf("list the image for Docker: %w", err)
	}
	return nil
}

// blob returns the path of a digest's content in an OCI layout.
func blob(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }

func addEntry(w *tar.Writer, directory, file string, entry fs.DirEntry) error {
	relative, err := filepath.Rel(directory, file)
	if err != nil {
		return err
	}
	header := &tar.Header{Name: filepath.ToSlash(relative), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
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
