package files

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	yamlreader "k8s.io/apimachinery/pkg/util/yaml"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// Kinds lists the supported kinds for messages.
const Kinds = "Pod, Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, ReplicationController, JobSet, LeaderWorkerSet; " +
	"ResourceClaim, ResourceClaimTemplate, DeviceClass, ResourceSlice, DeviceTaintRule (resource.k8s.io/v1 down to v1alpha3); PodGroup; Node; Namespace; " +
	"and lists of these"

// File is the contents of a file.
type File struct {
	// Objects are all objects except workloads. They include pods that have a node.
	Objects whatif.Objects
	// Workloads are pods without a node and the objects that make pods, in the order of the file.
	Workloads []Workload
	// Groups are the PodGroups, and Namespaces the namespaces with their labels.
	Groups     []*kube.PodGroup
	Namespaces []*v1.Namespace
	// Others are objects of unknown kinds.
	Others []Other
	// Warnings are about parts that Read does not understand and skips.
	Warnings []string

	namespace string
}

// Read reads a file of several documents in YAML or JSON. Objects without a namespace get the given one.
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
		data, err := yaml.YAMLToJSONStrict(text)
		if err != nil {
			return nil, fmt.Errorf("read document %d: it is neither YAML nor JSON with each field once: %w", number, err)
		}
		if isEmpty(data) {
			continue
		}
		if err := f.add(data); err != nil {
			return nil, fmt.Errorf("read document %d: %w", number, err)
		}
	}
}

func isEmpty(data []byte) bool {
	data = bytes.TrimSpace(data)
	return len(data) == 0 || bytes.Equal(data, []byte("null"))
}

// header has the fields that all objects share.
type header struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

// add adds one object, or the items of a list.
func (f *File) add(data []byte) error {
	var h header
	if err := strictjson.UnmarshalCaseSensitivePreserveInts(data, &h); err != nil {
		return fmt.Errorf("it is no object of the API: %w", mistyped(err))
	}
	if h.Kind == "" || h.APIVersion == "" {
		return fmt.Errorf("it has no kind or no apiVersion (capitals count); its fields are %s", fieldsOf(data))
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
	if !known && err == nil {
		err = f.addOther(&h, data)
	}
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
		object, err := api.Decode(api.Version(version), h.Kind, data)
		if err != nil {
			return true, err
		}
		if version != "v1" {
			f.Warnings = append(f.Warnings, fmt.Sprintf("%s %s is of %s, which servers only have if it is turned on; write it as resource.k8s.io/v1", h.Kind, h.Metadata.Name, h.APIVersion))
		}
		return true, f.addResource(object)
	}
	switch group, _, _ := strings.Cut(h.APIVersion, "/"); group + "/" + h.Kind {
	case "jobset.x-k8s.io/JobSet":
		return true, f.addJobSet(h, data)
	case "leaderworkerset.x-k8s.io/LeaderWorkerSet":
		return true, f.addLeaderWorkerSet(h, data)
	case kube.PodGroupVersion.Group + "/PodGroup":
		return true, addTyped(data, f.addGroup)
	}
	switch h.APIVersion + "/" + h.Kind {
	case "v1/Pod":
		return true, addTyped(data, f.addPod)
	case "v1/Node":
		return true, addTyped(data, f.addNode)
	case "v1/Namespace":
		return true, addTyped(data, func(o *v1.Namespace) error {
			f.Namespaces = append(f.Namespaces, o)
			return nil
		})
	case "v1/ReplicationController":
		return true, addTyped(data, func(o *v1.ReplicationController) error {
			if o.Spec.Template == nil {
				return errors.New("spec.template is missing")
			}
			return f.addWorkload(h.Kind, &o.ObjectMeta, o.Spec.Template, number(o.Spec.Replicas, 1), "spec.template")
		})
	case "apps/v1/Deployment":
		return true, addTyped(data, func(o *appsv1.Deployment) error {
			return f.addWorkload(h.Kind, &o.ObjectMeta, &o.Spec.Template, number(o.Spec.Replicas, 1), "spec.template")
		})
	case "apps/v1/ReplicaSet":
		return true, addTyped(data, func(o *appsv1.ReplicaSet) error {
			return f.addWorkload(h.Kind, &o.ObjectMeta, &o.Spec.Template, number(o.Spec.Replicas, 1), "spec.template")
		})
	case "apps/v1/StatefulSet":
		return true, addTyped(data, func(o *appsv1.StatefulSet) error {
			return f.addWorkload(h.Kind, &o.ObjectMeta, &o.Spec.Template, number(o.Spec.Replicas, 1), "spec.template")
		})
	case "apps/v1/DaemonSet":
		return true, addTyped(data, func(o *appsv1.DaemonSet) error {
			return f.addWorkload(h.Kind, &o.ObjectMeta, &o.Spec.Template, 0, "spec.template")
		})
	case "batch/v1/Job":
		return true, addTyped(data, func(o *batchv1.Job) error {
			return f.addWorkload(h.Kind, &o.ObjectMeta, &o.Spec.Template, atOnce(&o.Spec), "spec.template")
		})
	case "batch/v1/CronJob":
		return true, addTyped(data, func(o *batchv1.CronJob) error {
			job := &o.Spec.JobTemplate.Spec
			return f.addWorkload(h.Kind, &o.ObjectMeta, &job.Template, atOnce(job), "spec.jobTemplate.spec.template")
		})
	}
	return false, nil
}

// fieldsOf names the fields of an object, for an error message.
func fieldsOf(data []byte) string {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil || len(fields) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
}

// addTyped decodes an object and adds it.
func addTyped[T any](data []byte, add func(*T) error) error {
	one := new(T)
	if err := strictly(data, one); err != nil {
		return err
	}
	return add(one)
}

func (f *File) addGroup(group *kube.PodGroup) error {
	f.inNamespace(group)
	f.Groups = append(f.Groups, group)
	return nil
}

// addResource adds an object of resource.k8s.io if an API server would accept it. Slices describe planned hardware,
// and may be incomplete.
func (f *File) addResource(object metav1.Object) error {
	o := &f.Objects
	switch one := object.(type) {
	case *resourceapi.ResourceClaim:
		f.inNamespace(one)
		o.Claims = append(o.Claims, one)
		return validateClaim(one)
	case *resourceapi.ResourceClaimTemplate:
		f.inNamespace(one)
		o.Templates = append(o.Templates, one)
		return validateTemplate(one)
	case *resourceapi.DeviceClass:
		o.Classes = append(o.Classes, one)
		return validateClass(one)
	case *resourceapi.ResourceSlice:
		o.Slices = append(o.Slices, one)
	case *resourceapi.DeviceTaintRule:
		o.TaintRules = append(o.TaintRules, one)
	}
	return nil
}

func (f *File) inNamespace(object metav1.Object) {
	if object.GetNamespace() == "" {
		object.SetNamespace(f.namespace)
	}
}

func (f *File) addPod(pod *v1.Pod) error {
	f.inNamespace(pod)
	if pod.Spec.NodeName != "" {
		f.Objects.Pods = append(f.Objects.Pods, pod)
	}
	f.Workloads = append(f.Workloads, Workload{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, Replicas: 1, pod: pod})
	return validatePod(pod)
}

// defaultPods is the default of the kubelet's limit of pods (maxPods in KubeletConfiguration).
const defaultPods = "110"

// addNode adds a node, and fills in the status that a kubelet would report: planned nodes have none.
func (f *File) addNode(node *v1.Node) error {
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
	return nil
}
