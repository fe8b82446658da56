package whatif

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// dumpKind and dumpVersion distinguish dumps from other files.
const (
	dumpKind    = "DevicesDump"
	dumpVersion = "quartermaster-dra.io/v1alpha1"
)

// dump is the content of a dump file.
type dump struct {
	metav1.TypeMeta `json:",inline"`
	Objects         `json:",inline"`
}

// WriteDump writes objects as gzipped JSON. It leaves out data without effect on devices: managed
// fields and annotations, parameters for drivers and data that drivers report, and the environment,
// commands, images, volumes and most of the status of pods.
func WriteDump(w io.Writer, objects Objects) error {
	compressed := gzip.NewWriter(w)
	err := json.NewEncoder(compressed).Encode(dump{
		TypeMeta: metav1.TypeMeta{Kind: dumpKind, APIVersion: dumpVersion}, Objects: Slim(objects),
	})
	if err != nil {
		return fmt.Errorf("write a dump: %w", err)
	}
	if err := compressed.Close(); err != nil {
		return fmt.Errorf("write a dump: %w", err)
	}
	return nil
}

// ReadDump reads a file from WriteDump. The file may have been unpacked or edited as YAML.
func ReadDump(r io.Reader) (Objects, error) {
	all, err := bounded(r)
	if err != nil {
		return Objects{}, fmt.Errorf("read a dump: %w", err)
	}
	if all, err = unpacked(all); err != nil {
		return Objects{}, fmt.Errorf("read a dump: %w", err)
	}
	var d dump
	decode := json.Unmarshal
	if !bytes.HasPrefix(bytes.TrimSpace(all), []byte("{")) { // YAML takes ten times as long.
		decode = func(data []byte, into any) error { return yaml.Unmarshal(data, into) }
	}
	if err := decode(all, &d); err != nil {
		return Objects{}, fmt.Errorf("read a dump: it cannot be understood as JSON or YAML: %w", err)
	}
	if d.Kind != dumpKind || d.APIVersion != dumpVersion {
		return Objects{}, fmt.Errorf("read a dump: it has kind %q of %q instead of %s of %s", d.Kind, d.APIVersion, dumpKind, dumpVersion)
	}
	if err := d.check(); err != nil {
		return Objects{}, fmt.Errorf("read a dump: %w", err)
	}
	return d.Objects, nil
}

// check returns an error for entries that are null, which can remain in an edited file.
func (o *Objects) check() error {
	return errors.Join(
		withoutNull("nodes", o.Nodes), withoutNull("slices", o.Slices), withoutNull("claims", o.Claims), withoutNull("templates", o.Templates),
		withoutNull("classes", o.Classes), withoutNull("taintRules", o.TaintRules), withoutNull("pods", o.Pods),
	)
}

func withoutNull[T any](name string, all []*T) error {
	if i := slices.Index(all, nil); i >= 0 {
		return fmt.Errorf("entry %d of %s is null; remove it", i, name)
	}
	return nil
}
