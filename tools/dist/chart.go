package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/quartermaster-dra/quartermaster/tools/dist/archive"
)

// chartFolder is where the chart is, if there is one.
const chartFolder = "charts/quartermaster"

// addChart adds the chart as `helm package` would name and lay it out, with the release's version: without "v" as the chart's, which
// Helm wants, and with it as the one of what it installs, the image's tag.
func (r *release) addChart() error {
	root := filepath.Join(r.repository, filepath.FromSlash(chartFolder))
	if _, err := os.Stat(root); os.IsNotExist(err) {
		fmt.Printf("dist: there is no chart in %s, so there is none in the release\n", chartFolder)
		return nil
	}
	files, err := chartFiles(root)
	if err != nil {
		return fmt.Errorf("read the chart: %w", err)
	}
	version := strings.TrimPrefix(r.version, "v")
	for i := range files {
		if files[i].Name == "quartermaster/Chart.yaml" {
			if files[i].Content, err = versioned(files[i].Content, version, r.version); err != nil {
				return err
			}
		}
	}
	content, err := archive.TarGz(files, r.created)
	if err != nil {
		return fmt.Errorf("archive the chart: %w", err)
	}
	return r.write("quartermaster-"+version+".tgz", content)
}

// versioned returns a Chart.yaml with other versions, and everything else as it is.
func versioned(chart []byte, version, appVersion string) ([]byte, error) {
	for field, value := range map[string]string{"version": version, "appVersion": appVersion} {
		line := regexp.MustCompile(`(?m)^` + field + `:.*$`)
		if n := len(line.FindAll(chart, -1)); n != 1 {
			return nil, fmt.Errorf("%s/Chart.yaml has %d lines that begin with %q; it has to have one", chartFolder, n, field+":")
		}
		chart = line.ReplaceAll(chart, []byte(field+": "+fmt.Sprintf("%q", value)))
	}
	return chart, nil
}
