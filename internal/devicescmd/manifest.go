package devicescmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// manifest is what a file with API objects has.
type manifest struct {
	whatif.Objects
	// workloads are pods, and templates of pods with how many of them there are.
	workloads []workload
}

// workload is a number of pods of one kind.
type workload struct {
	pod      *v1.Pod
	replicas int
}

// readManifest reads a file in YAML or JSON; "-" is standard input. Objects without namespace are in the given one.
func (o *options) readManifest(name string) (*manifest, error) {
	var input io.Reader = o.In
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("open the file: %w", err)
		}
		defer file.Close()
		input = file
	}
	m := &manifest{}
	decoder := yaml.NewYAMLOrJSONDecoder(input, 4096)
	for {
		var raw runtime.RawExtension
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if len(bytes.TrimSpace(raw.Raw)) == 0 || string(raw.Raw) == "null" {
			continue
		}
		if err := m.decode(raw.Raw, o.namespace()); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
}

// decode adds an object, or those of a list.
func (m *manifest) decode(raw []byte, namespace string) error {
	var list struct {
		metav1.TypeMeta `json:",inline"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	if list.Kind == "List" {
		for _, item := range list.Items {
			if err := m.decode(item, namespace); err != nil {
				return err
			}
		}
		return nil
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(inV1(raw, list.TypeMeta), nil, nil)
	if err != nil {
		return fmt.Errorf("%s of %s: %w", list.Kind, list.APIVersion, err)
	}
	if meta, is := object.(metav1.Object); is && meta.GetNamespace() == "" && isNamespaced(object) {
		meta.SetNamespace(namespace)
	}
	return m.add(object, list.TypeMeta)
}

// inV1 makes of an object of resource.k8s.io/v1beta2 one of v1, which has the same fields.
func inV1(raw []byte, kind metav1.TypeMeta) []byte {
	if kind.APIVersion != "resource.k8s.io/v1beta2" {
		return raw
	}
	var object map[string]any
	if json.Unmarshal(raw, &object) != nil {
		return raw
	}
	object["apiVersion"] = resourceapi.SchemeGroupVersion.String()
	if changed, err := json.Marshal(object); err == nil {
		return changed
	}
	return raw
}

func isNamespaced(object runtime.Object) bool {
	switch object.(type) {
	case *v1.Node, *resourceapi.ResourceSlice, *resourceapi.DeviceClass, *resourceapi.DeviceTaintRule:
		return false
	}
	return true
}

func (m *manifest) add(object runtime.Object, kind metav1.TypeMeta) error {
	switch typed := object.(type) {
	case *v1.Pod:
		m.workload(&v1.PodTemplateSpec{ObjectMeta: typed.ObjectMeta, Spec: typed.Spec}, typed, nil)
	case *appsv1.Deployment:
		m.workload(&typed.Spec.Template, typed, typed.Spec.Replicas)
	case *appsv1.ReplicaSet:
		m.workload(&typed.Spec.Template, typed, typed.Spec.Replicas)
	case *appsv1.StatefulSet:
		m.workload(&typed.Spec.Template, typed, typed.Spec.Replicas)
	case *batchv1.Job:
		m.workload(&typed.Spec.Template, typed, typed.Spec.Parallelism)
	case *resourceapi.ResourceClaim:
		m.Claims = append(m.Claims, typed)
	case *resourceapi.ResourceClaimTemplate:
		m.Templates = append(m.Templates, typed)
	case *resourceapi.DeviceClass:
		m.Classes = append(m.Classes, typed)
	case *resourceapi.ResourceSlice:
		m.Slices = append(m.Slices, typed)
	case *resourceapi.DeviceTaintRule:
		m.TaintRules = append(m.TaintRules, typed)
	case *v1.Node:
		m.Nodes = append(m.Nodes, typed)
	default:
		return fmt.Errorf("nothing is known about %s of %s; understood are Pod, Deployment, ReplicaSet, StatefulSet, Job, Node, "+
			"and in resource.k8s.io/v1 or v1beta2 ResourceClaim, ResourceClaimTemplate, DeviceClass, ResourceSlice and DeviceTaintRule", kind.Kind, kind.APIVersion)
	}
	return nil
}

// workload adds pods made from a template.
func (m *manifest) workload(template *v1.PodTemplateSpec, owner metav1.Object, replicas *int32) {
	m.workloads = append(m.workloads, workload{
		pod: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: owner.GetNamespace(), Name: owner.GetName(), Labels: template.Labels},
			Spec:       template.Spec,
		},
		replicas: int(ptr.Deref(replicas, 1)),
	})
}

// pods are those of all workloads, or so many of each if that is not 0.
func (m *manifest) pods(replicas int) []*v1.Pod {
	var all []*v1.Pod
	for _, w := range m.workloads {
		n := w.replicas
		if replicas > 0 {
			n = replicas
		}
		for i := range n {
			pod := w.pod.DeepCopy()
			if n > 1 {
				pod.Name = fmt.Sprintf("%s-%d", pod.Name, i)
			}
			all = append(all, pod)
		}
	}
	return all
}

// removal reads what is to be done without: claim/…, pod/… and node/….
func (o *options) removal(names []string) (whatif.Removal, error) {
	var gone whatif.Removal
	for _, name := range names {
		if node, is := strings.CutPrefix(name, "node/"); is {
			gone.Nodes = append(gone.Nodes, node)
			continue
		}
		kind, rest := kindAndName(name)
		if !strings.Contains(rest, "/") {
			rest = o.namespace() + "/" + rest
		}
		switch kind {
		case "claim":
			gone.Claims = append(gone.Claims, rest)
		case "pod":
			gone.Pods = append(gone.Pods, rest)
		default:
			return gone, fmt.Errorf("--without %s does not say what it is; write claim/NAME, pod/NAME or node/NAME", name)
		}
	}
	return gone, nil
}
