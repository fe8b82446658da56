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

// entrypoint is what runs unless a pod says otherwise; the guard is beside it.
const entrypoint = "/scheduler"

// indexOf makes the image for all platforms.
func indexOf(o options) (v1.ImageIndex, error) {
	roots, err := rootsLayer(o.created)
	if err != nil {
		return nil, err
	}
	licenses, err := licensesLayer(o.licenses, o.created)
	if err != nil {
		return nil, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, name := range o.platforms {
		platform, err := v1.ParsePlatform(name)
		if err != nil {
			return nil, fmt.Errorf("-platforms: asked for %q, which is no platform such as linux/amd64: %w", name, err)
		}
		image, err := imageFor(o, platform, roots, licenses)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return mutate.Annotations(index, annotations(o)).(v1.ImageIndex), nil
}

// imageFor makes the image for one platform: the layers that all have in common, which hardly ever change, and the binaries.
func imageFor(o options, platform *v1.Platform, common ...v1.Layer) (v1.Image, error) {
	binaries, err := binariesLayer(filepath.Join(o.binaries, strings.ReplaceAll(platform.String(), "/", "-")), o.created)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.AppendLayers(image, append(slices.Clone(common), binaries)...)
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
