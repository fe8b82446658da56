// Command dist puts together what a release consists of: archives of the programs with their licences, bills of materials, the manifest
// for krew, the image and the chart, with the checksums of all of them. The same binaries give the same bits.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// options are the command line.
type options struct {
	// repository is the folder that everything else is read from: licence, chart, completion.
	repository string
	// binaries has a folder for each platform, such as linux-amd64.
	binaries string
	// image is the archive of the image, none if empty.
	image  string
	output string
	// version is that of the release, such as v0.1.0, and kubernetes that of the libraries.
	version, kubernetes string
	// created is the time that all files bear: that of the commit.
	created time.Time
	// platforms are those of scheduler and guard, kubectl those of kubectl devices.
	platforms, kubectl []string
}

func main() {
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(context.Background(), o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// semver is a version as in Go and Helm. What a chart is tagged with in a registry has no "+".
var semver = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("dist", flag.ContinueOnError)
	flags.StringVar(&o.repository, "repository", ".", "folder of the repository")
	flags.StringVar(&o.binaries, "binaries", "bin/platforms", "folder with the binaries of each platform, in folders such as linux-amd64")
	flags.StringVar(&o.image, "image", "", "archive of the image")
	flags.StringVar(&o.output, "output", "bin/dist", "folder to write, which has to be empty")
	flags.StringVar(&o.version, "version", "", "version of the release, such as v0.1.0")
	flags.StringVar(&o.kubernetes, "kubernetes", "", "version of the Kubernetes libraries")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64", "platforms of the scheduler and the guard")
	kubectl := flags.String("kubectl-platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64", "platforms of kubectl devices")
	created := flags.String("created", "", "time of the commit (RFC 3339)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if !semver.MatchString(o.version) {
		return o, fmt.Errorf("-version: asked for %q, which is no version such as v0.1.0 or v0.1.0-rc.1; the tag of a release has to be one", o.version)
	}
	if o.created, err = time.Parse(time.RFC3339, *created); err != nil {
		return o, fmt.Errorf("-created: asked for %q, which is no time such as 2026-01-02T15:04:05Z: %w", *created, err)
	}
	o.platforms, o.kubectl = strings.Split(*platforms, ","), strings.Split(*kubectl, ",")
	return o, nil
}
