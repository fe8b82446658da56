package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is a number, so that the kubelet can check runAsNonRoot. No such user exists, and it owns no file.
const user = "65532:65532"

// entrypoint is the program that runs unless a pod names another; the guard is beside it.
const entrypoint = "/scheduler"

// commonFiles are those of the image for any platform, by layer. They hardly ever change.
func commonFiles(o options) ([][]file, error) {
	roots, err := rootFiles()
	if err != nil {
		return nil, err
	}
	licenses, err := licenseFiles(o.licenses)
	if err != nil {
		return nil, err
	}
	return [][]file{roots, licenses}, nil
}

// programFiles are those of the image for one platform.
func programFiles(o options, platform *v1.Platform) ([]file, error) {
	return binaryFiles(filepath.Join(o.binaries, strings.ReplaceAll(platform.String(), "/", "-")))
}

func parsePlatform(name string) (*v1.Platform, error) {
	platform, err := v1.ParsePlatform(name)
	if err != nil {
		return nil, fmt.Errorf("-platforms: asked for %q, which is no platform such as linux/amd64: %w", name, err)
	}
	return platform, nil
}

// indexOf makes the image for all platforms.
func indexOf(o options) (v1.ImageIndex, error) {
	common, err := commonFiles(o)
	if err != nil {
		return nil, err
	}
	var layers []v1.Layer
	for _, files := range common {
		layer, err := layerOf(o.created, files)
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, name := range o.platforms {
		platform, err := parsePlatform(name)
		if err != nil {
			return nil, err
		}
		image, err := imageFor(o, platform, layers)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return mutate.Annotations(index, annotations(o)).(v1.ImageIndex), nil
}

// imageFor makes the image for one platform: the layers that all have in common, and one with the programs.
func imageFor(o options, platform *v1.Platform, common []v1.Layer) (v1.Image, error) {
	files, err := programFiles(o, platform)
	if err != nil {
		return nil, err
	}
	programs, err := layerOf(o.created, files)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.AppendLayers(image, append(slices.Clone(common), programs)...)
	if err != nil {
		return nil, fmt.Errorf("layers for %s: %w", platform, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("configuration for %s: %w", platform, err)
	}
	config = config.DeepCopy()
	config.Created = v1.Time{Time: o.created}
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Config.User, config.Config.WorkingDir = user, "/"
	config.Config.Entrypoint = []string{entrypoint}
	config.Config.Labels = annotations(o)
	return mutate.ConfigFile(image, config)
}

// annotations are those of the OCI image specification.
func annotations(o options) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "quartermaster",
		"org.opencontainers.image.description": "A scheduler for devices in Kubernetes (dynamic resource allocation), and its guard",
		"org.opencontainers.image.source":      "https://github.com/quartermaster-dra/quartermaster",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     o.version,
		"org.opencontainers.image.revision":    o.revision,
		"org.opencontainers.image.created":     o.created.UTC().Format("2006-01-02T15:04:05Z"),
	}
}
