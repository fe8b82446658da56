package whatif

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// dumpKind tells dumps from other files.
const (
	dumpKind    = "DevicesDump"
	dumpVersion = "quartermaster-dra.io/v1alpha1"
)

// dump is a file with objects.
type dump struct {
	metav1.TypeMeta `json:",inline"`
	Objects         `json:",inline"`
}

// WriteDump writes objects as gzipped JSON. What does not matter for devices is left out: managed fields, and of pods
// the environment, commands, images and most of the status.
func WriteDump(w io.Writer, objects Objects) error {
	compressed := gzip.NewWriter(w)
	err := json.NewEncoder(compressed).Encode(dump{
		TypeMeta: metav1.TypeMeta{Kind: dumpKind, APIVersion: dumpVersion}, Objects: slim(objects),
	})
	if err != nil {
		return fmt.Errorf("write a dump: %w", err)
	}
	if err := compressed.Close(); err != nil {
		return fmt.Errorf("write a dump: %w", err)
	}
	return nil
}

// ReadDump reads what WriteDump has written. It may have been unpacked or edited as YAML.
func ReadDump(r io.Reader) (Objects, error) {
	all, err := io.ReadAll(r)
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
		return Objects{}, fmt.Errorf("read a dump: it is neither JSON nor YAML: %w", err)
	}
	if d.Kind != dumpKind || d.APIVersion != dumpVersion {
		return Objects{}, fmt.Errorf("read a dump: it is kind %q of %q, expected is %s of %s", d.Kind, d.APIVersion, dumpKind, dumpVersion)
	}
	return d.Objects, nil
}

// slim returns copies of the objects without what nobody needs.
func slim(o Objects) Objects {
	o.Nodes = mapped(o.Nodes, func(n *v1.Node) {
		n.Status = v1.NodeStatus{Allocatable: n.Status.Allocatable, Capacity: n.Status.Capacity, Conditions: n.Status.Conditions}
	})
	o.Pods = mapped(o.Pods, slimPod)
	o.Slices = mapped(o.Slices, nothing)
	o.Claims = mapped(o.Claims, nothing)
	o.Templates = mapped(o.Templates, nothing)
	o.Classes = mapped(o.Classes, nothing)
	o.TaintRules = mapped(o.TaintRules, nothing)
	return o
}

func nothing[T any](*T) {}

// slimPod leaves what decides where a pod can go, and nothing that may be secret.
func slimPod(p *v1.Pod) {
	for _, containers := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			containers[i] = v1.Container{Name: c.Name, Resources: c.Resources, Ports: c.Ports, RestartPolicy: c.RestartPolicy}
		}
	}
	p.Spec.EphemeralContainers = nil
	p.Annotations = nil
	p.Status = v1.PodStatus{
		Phase: p.Status.Phase, Conditions: p.Status.Conditions, NominatedNodeName: p.Status.NominatedNodeName,
		ResourceClaimStatuses: p.Status.ResourceClaimStatuses, ExtendedResourceClaimStatus: p.Status.ExtendedResourceClaimStatus,
		StartTime: p.Status.StartTime,
	}
}

// mapped returns copies of objects, changed by a function.
func mapped[T any, P interface {
	object[T]
	DeepCopy() *T
}](all []*T, change func(*T)) []*T {
	result := make([]*T, len(all))
	for i, one := range all {
		result[i] = P(one).DeepCopy()
		P(result[i]).SetManagedFields(nil)
		change(result[i])
	}
	return result
}
