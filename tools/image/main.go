// Command image builds the container image of the scheduler and the guard without a container engine: an OCI image index, as an
// archive of an OCI layout that Docker reads as well, and pushes it if a registry is given. The same binaries give the same bits. For
// the Dockerfile it writes the files of the image into a folder.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// options are the command line.
type options struct {
	// binaries has a directory for each platform, such as linux-amd64.
	binaries string
	// licenses is a folder that becomes /licenses.
	licenses  string
	platforms []string
	// output is the archive to write, and root a folder for the files of the image instead.
	output, root string
	// name is the reference that the image has in the archive.
	name string
	// push is where the image goes, nowhere if it is empty.
	push              string
	version, revision string
	// created is the time that the image and its files bear: that of the commit.
	created time.Time
}

func main() {
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the image:", err)
		os.Exit(1)
	}
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&o.binaries, "binaries", "bin/platforms", "directory with the binaries of each platform, in directories such as linux-amd64")
	flags.StringVar(&o.licenses, "licenses", "bin/image-licenses", "folder with the licences of what is in the binaries")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64", "platforms that the image is for")
	flags.StringVar(&o.output, "output", "bin/image.tar", "archive to write")
	flags.StringVar(&o.root, "root", "", "folder to write the files of the image into, for one platform; no archive is written then")
	flags.StringVar(&o.name, "name", "ghcr.io/quartermaster-dra/quartermaster:dev", "reference that the image has in the archive: what manifests ask for")
	flags.StringVar(&o.push, "push", "", "reference to push the image to, such as registry.example.com/quartermaster:v1")
	flags.StringVar(&o.version, "version", "", "version of the binaries")
	flags.StringVar(&o.revision, "revision", "", "commit that they were built from")
	created := flags.String("created", "1970-01-01T00:00:00Z", "time of that commit (RFC 3339)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.platforms = strings.Split(*platforms, ",")
	if o.created, err = time.Parse(time.RFC3339, *created); err != nil {
		return o, fmt.Errorf("-created: asked for %q, which is no time such as 2026-01-02T15:04:05Z: %w", *created, err)
	}
	return o, nil
}

func run(o options) error {
	if o.root != "" {
		return writeRoot(o)
	}
	reference, err := name.NewTag(o.name)
	if err != nil {
		return fmt.Errorf("-name: asked for %q, which is no reference with a tag such as registry.example.com/quartermaster:v1: %w", o.name, err)
	}
	index, err := indexOf(o)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("digest of the image: %w", err)
	}
	if err := writeArchive(o.output, index, reference); err != nil {
		return err
	}
	fmt.Println("wrote", o.output, digest, "as", fullName(reference))
	if o.push == "" {
		return nil
	}
	return push(o.push, index, digest)
}

// push uploads the image with the credentials of docker's configuration.
func push(to string, index v1.ImageIndex, digest v1.Hash) error {
	reference, err := name.ParseReference(to)
	if err != nil {
		return fmt.Errorf("-push: asked for %q, which is no reference to an image such as registry.example.com/quartermaster:v1: %w", to, err)
	}
	if err := remote.WriteIndex(reference, index, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return errors.Join(fmt.Errorf("push to %s; credentials come from the configuration of docker login", reference), err)
	}
	fmt.Println("pushed", reference.Context().Digest(digest.String()))
	return nil
}
