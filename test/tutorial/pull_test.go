package tutorial

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// ociTypes are the media types of an index and a manifest of the OCI image specification.
const ociTypes = "application/vnd.oci.image.index.v1+json,application/vnd.oci.image.manifest.v1+json"

// manifest has what is needed of an index and a manifest.
type manifest struct {
	Manifests []descriptor `json:"manifests"`
	Layers    []descriptor `json:"layers"`
}

type descriptor struct {
	Digest   string `json:"digest"`
	Platform struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
	} `json:"platform"`
}

// pull gets one file of an image, such as /scheduler, from its registry, for this machine's platform. It returns where it has put it.
func pull(ctx context.Context, image, file, folder string) (string, error) {
	host, rest, found := strings.Cut(image, "/")
	repository, tag, tagged := strings.Cut(rest, ":")
	if !found || !tagged {
		return "", errors.New("it is not of the form HOST/REPOSITORY:TAG")
	}
	base := "http://" + host + "/v2/" + repository
	var index, platform manifest
	if err := getJSON(ctx, base+"/manifests/"+tag, &index); err != nil {
		return "", err
	}
	for _, candidate := range index.Manifests {
		if candidate.Platform.OS != runtime.GOOS || candidate.Platform.Architecture != runtime.GOARCH {
			continue
		}
		if err := getJSON(ctx, base+"/manifests/"+candidate.Digest, &platform); err != nil {
			return "", err
		}
	}
	for _, layer := range platform.Layers {
		path, err := fileOfLayer(ctx, base+"/blobs/"+layer.Digest, file, folder)
		if path != "" || err != nil {
			return path, err
		}
	}
	return "", fmt.Errorf("it has no file %s for %s/%s", file, runtime.GOOS, runtime.GOARCH)
}

// fileOfLayer writes a file of a layer into a folder, and returns its path, or nothing if it is not in the layer.
func fileOfLayer(ctx context.Context, url, file, folder string) (string, error) {
	body, err := get(ctx, url)
	if err != nil {
		return "", err
	}
	defer body.Close()
	unzipped, err := gzip.NewReader(body)
	if err != nil {
		return "", err
	}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		if "/"+strings.Trim(header.Name, "./") != file {
			continue
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return "", err
		}
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return "", err
		}
		path := filepath.Join(folder, filepath.Base(file))
		return path, os.WriteFile(path, content, header.FileInfo().Mode())
	}
}

func getJSON(ctx context.Context, url string, into any) error {
	body, err := get(ctx, url)
	if err != nil {
		return err
	}
	defer body.Close()
	return json.NewDecoder(body).Decode(into)
}

func get(ctx context.Context, url string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", ociTypes)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("GET %s answers %s", url, response.Status)
	}
	return response.Body, nil
}
