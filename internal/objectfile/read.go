package objectfile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	yamlreader "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/internal/amount"
	"github.com/quartermaster-dra/quartermaster/internal/apiversions"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// Kinds are those that files may have, in words.
const Kinds = "Pod, Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, ReplicationController; " +
	"ResourceClaim, ResourceClaimTemplate, DeviceClass, ResourceSlice, DeviceTaintRule (resource.k8s.io/v1 down to v1alpha3); Node; " +
	"and lists of these"

// File is what a file has.
type File struct {
	// Objects are those that are not workloads. Pods on a node are among them.
	Objects whatif.Objects
	// Workloads are pods that are on no node, and what makes pods, in the order of the file.
	Workloads []Workload
	// Warnings say what was not understood and does not keep from reading the rest.
	Warnings []string

	namespace string
}

// Read reads a file of several documents in YAML or JSON. Objects without namespace get the one given.
func Read(r io.Reader, namespace string) (*File, error) {
	f := &File{namespace: namespace}
	documents := yamlreader.NewYAMLReader(bufio.NewReader(r))
	for number := 1; ; number++ {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return f, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the objects: %w", err)
		}
		data, err := yaml.YAMLToJSON(text)
		if err != nil {
			return nil, fmt.Errorf("read object %d: it is neither YAML nor JSON: %w", number, err)
		}
		if isEmpty(data) {
			continue
		}
		if err := f.add(data); err != nil {
			return nil, fmt.Errorf("read object %d: %w", number, err)
		}
	}
}

func isEmpty(data []byte) bool {
	data = bytes.TrimSpace(data)
	return len(data) == 0 || bytes.Equal(data, []byte("null"))
}

// header is what all objects have.
type header struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

// add adds one object, or those of a list.
func (f *File) add(data []byte) error {
	var h header
	if err := json.Unmarshal(data, &h); err != nil {
		return fmt.Errorf("it is no object of the API: %w", err)
	}
	if h.Kind == "" || h.APIVersion == "" {
		return errors.New("it has no kind or no apiVersion")
	}
	if strings.HasSuffix(h.Kind, "List") && h.Items != nil {
		for i, item := range h.Items {
			if err := f.add(item); err != nil {
				return fmt.Errorf("item %d of the list: %w", i+1, err)
			}
		}
		return nil
	}
	known, err := f.addObject(&h, data)
	switch {
	case err != nil:
		return fmt.Errorf("%s %s (%s): %w", h.Kind, h.Metadata.Name, h.APIVersion, err)
	case !known:
		f.Warnings = append(f.Warnings, fmt.Sprintf("%s %s (%s) is not looked at", h.Kind, h.Metadata.Name, h.APIVersion))
	}
	return nil
}

func (f *File) addObject(h *header, data []byte) (known bool, err error) {
	if version, is := strings.CutPrefix(h.APIVersion, resourceapi.GroupName+"/"); is {
		object, err := apiversions.Decode(apiversions.Version(version), h.Kind, data)
		if object == nil {
			return true, err
		}
		if err != nil {
			f.warn(h, err)
		}
		f.addResource(object)
		return true, nil
	}
	switch h.APIVersion + "/" + h.Kind {
	case "v1/Pod":
		return true, addTyped(f, h, data, f.addPod)
	case "v1/Node":
		return true, addTyped(f, h, data, f.addNode)
	case "v1/ReplicationController":
		return true, addTyped(f, h, data, func(o *v1.ReplicationController) {
			if o.Spec.Template != nil {
				f.addWorkload(h.Kind, &o.ObjectMeta, o.Spec.Template, number(o.Spec.Replicas, 1))
			}
		})
	case "apps/v1/Deployment":
		return true, addTyped(f, h, data, func(o *appsv1.Deployment) {
			f.addWorkload(h.Kind, &o.ObjectMeta, &o.Spec.Template, number(o.Spec.Replicas, 1))
		})
	case "apps/v1/ReplicaSet":
		return true, addTyped(f, h, data, func(o *appsv1.ReplicaSet) {
			f.addWorkload(h.Kind, &o.ObjectMeta, &o.Spec.Template, number(o.Spec.Replicas, 1))
		})
	case "apps/v1/StatefulSet":
		return true, addTyped(f, h, data, func(o *appsv1.StatefulSet) {
			f.addWorkload(h.Kind, &o.ObjectMeta, &o.Spec.Template, number(o.Spec.Replicas, 1))
		})
	case "apps/v1/DaemonSet":
		return true, addTyped(f, h, data, func(o *appsv1.DaemonSet) {
			f.addWorkload(h.Kind, &o.ObjectMeta, &o.Spec.Template, 0)
		})
	case "batch/v1/Job":
		return true, addTyped(f, h, data, func(o *batchv1.Job) {
			f.addWorkload(h.Kind, &o.ObjectMeta, &o.Spec.Template, atOnce(&o.Spec))
		})
	case "batch/v1/CronJob":
		return true, addTyped(f, h, data, func(o *batchv1.CronJob) {
			f.addWorkload(h.Kind, &o.ObjectMeta, &o.Spec.JobTemplate.Spec.Template, atOnce(&o.Spec.JobTemplate.Spec))
		})
	}
	return false, nil
}

// addTyped reads an object and adds it. Fields that are not known are a warning: newer servers have more.
func addTyped[T any](f *File, h *header, data []byte, add func(*T)) error {
	one := new(T)
	if err := amount.CheckJSON(data, reflect.TypeFor[T](), amount.IsEndless); err != nil {
		return fmt.Errorf("read it: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if strict := decoder.Decode(one); strict != nil {
		one = new(T)
		if err := json.Unmarshal(data, one); err != nil {
			return fmt.Errorf("read it: %w", err)
		}
		f.warn(h, fmt.Errorf("%w: %w", apiversions.ErrUnknownFields, strict))
	}
	add(one)
	return nil
}

func (f *File) warn(h *header, err error) {
	f.Warnings = append(f.Warnings, fmt.Sprintf("%s %s: %v", h.Kind, h.Metadata.Name, err))
}

func (f *File) addResource(object metav1.Object) {
	o := &f.Objects
	switch one := object.(type) {
	case *resourceapi.ResourceClaim:
		f.inNamespace(one)
		o.Claims = append(o.Claims, one)
	case *resourceapi.ResourceClaimTemplate:
		f.inNamespace(one)
		o.Templates = append(o.Templates, one)
	case *resourceapi.DeviceClass:
		o.Classes = append(o.Classes, one)
	case *resourceapi.ResourceSlice:
		o.Slices = append(o.Slices, one)
	case *resourceapi.DeviceTaintRule:
		o.TaintRules = append(o.TaintRules, one)
	}
}

func (f *File) inNamespace(object metav1.Object) {
	if object.GetNamespace() == "" {
		object.SetNamespace(f.namespace)
	}
}

func (f *File) addPod(pod *v1.Pod) {
	f.inNamespace(pod)
	if pod.Spec.NodeName != "" {
		f.Objects.Pods = append(f.Objects.Pods, pod)
	}
	f.Workloads = append(f.Workloads, Workload{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, Replicas: 1, pod: pod})
}

// defaultPods is how many pods a kubelet allows if nobody says otherwise (maxPods in KubeletConfiguration).
const defaultPods = "110"

// addNode adds a node. What somebody wants to buy has no status that a kubelet has written.
func (f *File) addNode(node *v1.Node) {
	if len(node.Status.Allocatable) == 0 {
		node.Status.Allocatable = node.Status.Capacity.DeepCopy()
	}
	if node.Status.Allocatable == nil {
		node.Status.Allocatable = v1.ResourceList{}
	}
	if _, said := node.Status.Allocatable[v1.ResourcePods]; !said {
		node.Status.Allocatable[v1.ResourcePods] = resource.MustParse(defaultPods)
	}
	if node.Labels == nil {
		node.Labels = make(map[string]string)
	}
	if node.Labels[v1.LabelHostname] == "" {
		node.Labels[v1.LabelHostname] = node.Name
	}
	f.Objects.Nodes = append(f.Objects.Nodes, node)
}
