// Package sbom writes a program's bill of materials in the CycloneDX format: the modules recorded in the program, with licences. The same
// program gives the same text: the only time in it is the commit's, and it has no random number.
package sbom

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"

	"github.com/quartermaster-dra/quartermaster/tools/dist/licenses"
)

// A Program that is shipped.
type Program struct {
	Name, Version, Platform string
	// Created is the time of the commit.
	Created time.Time
	Binary  []byte
}

// Of returns the bill of materials of a program. Each module that is linked has to be among those with licences.
func Of(program Program, modules []licenses.Module) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(program.Binary))
	if err != nil {
		return nil, fmt.Errorf("%s for %s does not say which modules it was built of, so it is no program in Go: %w", program.Name, program.Platform, err)
	}
	expressions := map[string]string{}
	for _, module := range modules {
		expressions[module.Path] = module.License
	}
	std := &debug.Module{Path: licenses.Std, Version: strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go")}
	var components []cyclonedx.Component
	var references []string
	for _, module := range append([]*debug.Module{std}, info.Deps...) {
		expression := expressions[module.Path]
		if expression == "" {
			return nil, fmt.Errorf("%s for %s links %s, and no licence of that was collected; the program and the licences are not of the same commit: run `make dist` again", program.Name, program.Platform, module.Path)
		}
		c := component(module, expression)
		components, references = append(components, c), append(references, c.BOMRef)
	}
	return encode(program, info, components, references)
}

func component(module *debug.Module, expression string) cyclonedx.Component {
	path, version, sum := module.Path, module.Version, module.Sum
	if module.Replace != nil {
		path, version, sum = module.Replace.Path, module.Replace.Version, module.Replace.Sum
	}
	c := cyclonedx.Component{
		Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, Licenses: licenseOf(expression),
		PackageURL: "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B"),
	}
	c.BOMRef = c.PackageURL
	if sum != "" {
		c.Properties = &[]cyclonedx.Property{{Name: "quartermaster:go.sum", Value: sum}}
	}
	return c
}

func licenseOf(expression string) *cyclonedx.Licenses {
	if strings.Contains(expression, " ") {
		return &cyclonedx.Licenses{{Expression: expression}}
	}
	return &cyclonedx.Licenses{{License: &cyclonedx.License{ID: expression}}}
}

func encode(program Program, info *debug.BuildInfo, components []cyclonedx.Component, references []string) ([]byte, error) {
	sum := sha256.Sum256(program.Binary)
	system, architecture, _ := strings.Cut(program.Platform, "/")
	main := cyclonedx.Component{
		BOMRef: program.Name, Type: cyclonedx.ComponentTypeApplication, Name: program.Name, Version: program.Version,
		PackageURL: "pkg:golang/" + info.Main.Path + "@" + program.Version + "?goos=" + system + "&goarch=" + architecture,
		Licenses:   licenseOf("Apache-2.0"),
		Hashes:     &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: program.Created.UTC().Format(time.RFC3339), Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &references}}
	var text bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return nil, fmt.Errorf("bill of materials of %s for %s: %w", program.Name, program.Platform, err)
	}
	return text.Bytes(), nil
}
