package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quartermaster-dra/quartermaster/tools/dist/krew"
)

// release collects the files written so far.
type release struct {
	options
	sums map[string]string // by name of the file
}

// run writes all files of the release. SHA256SUMS is the last one, so that where it is missing, others may be, too.
func run(ctx context.Context, o options) error {
	if err := os.MkdirAll(o.output, 0o755); err != nil {
		return fmt.Errorf("make the folder of the release: %w", err)
	}
	if entries, err := os.ReadDir(o.output); err != nil {
		return fmt.Errorf("read the folder of the release: %w", err)
	} else if len(entries) > 0 {
		return fmt.Errorf("%s has to be empty, and has %d files; remove it, or name another folder with -output", o.output, len(entries))
	}
	r := &release{options: o, sums: map[string]string{}}
	for _, program := range []string{"scheduler", "guard"} {
		if _, err := r.addProgram(ctx, program, "quartermaster-"+program, o.platforms); err != nil {
			return err
		}
	}
	archives, err := r.addProgram(ctx, "kubectl-devices", "kubectl-devices", o.kubectl)
	if err != nil {
		return err
	}
	manifest, err := krew.Manifest(o.version, archives)
	if err != nil {
		return err
	}
	if err := r.write(krew.FileName, manifest); err != nil {
		return err
	}
	if err := r.addImage(); err != nil {
		return err
	}
	if err := r.addChart(); err != nil {
		return err
	}
	return r.writeSums()
}

// addImage adds the image as it is.
func (r *release) addImage() error {
	if r.image == "" {
		return nil
	}
	content, err := os.ReadFile(r.image)
	if err != nil {
		return fmt.Errorf("read the image; `make image` builds it: %w", err)
	}
	return r.write("quartermaster-image_"+r.version+".oci.tar", content)
}

func (r *release) write(name string, content []byte) error {
	if err := os.WriteFile(filepath.Join(r.output, name), content, 0o644); err != nil {
		return fmt.Errorf("write a file of the release: %w", err)
	}
	sum := sha256.Sum256(content)
	r.sums[name] = hex.EncodeToString(sum[:])
	return nil
}

// writeSums writes the checksums as sha256sum does, in the order of the names.
func (r *release) writeSums() error {
	var names []string
	for name := range r.sums {
		names = append(names, name)
	}
	slices.SortFunc(names, cmp.Compare)
	var text strings.Builder
	for _, name := range names {
		fmt.Fprintf(&text, "%s  %s\n", r.sums[name], name)
	}
	if err := r.write("SHA256SUMS", []byte(text.String())); err != nil {
		return err
	}
	fmt.Printf("dist: %d files of %s in %s\n", len(names)+1, r.version, r.output)
	return nil
}
