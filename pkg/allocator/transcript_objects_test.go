package allocator_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// commandSlices loads lists of ResourceSlices from test/realslices.
func (w *world) commandSlices(files, _ []string) (string, error) {
	var lines []string
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join("../../test/realslices", file))
		if err != nil {
			return "", err
		}
		var list resourceapi.ResourceSliceList
		if err := yaml.UnmarshalStrict(text, &list); err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		devices := 0
		for i := range list.Items {
			w.slices[list.Items[i].Name] = &list.Items[i]
			devices += len(list.Items[i].Spec.Devices)
		}
		lines = append(lines, fmt.Sprintf("%s, %s", plural(len(list.Items), "slice"), plural(devices, "device")))
	}
	return strings.Join(lines, "\n"), nil
}

// commandApply is "kubectl apply" for manifests in the input or in files.
func (w *world) commandApply(files, input []string) (string, error) {
	manifests := []string{strings.Join(input, "\n")}
	if len(input) == 0 {
		manifests = nil
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(transcriptDir, file))
		if err != nil {
			return "", err
		}
		manifests = append(manifests, string(text))
	}
	var names []string
	for _, document := range strings.Split(strings.Join(manifests, "\n---\n"), "\n---\n") {
		name, err := w.apply([]byte(document))
		if err != nil {
			return "", err
		}
		names = append(names, name)
	}
	return strings.Join(names, " "), nil
}

func (w *world) apply(document []byte) (string, error) {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return "", err
	}
	if kind.APIVersion != resourceapi.SchemeGroupVersion.String() {
		return "", fmt.Errorf("apiVersion is %q, must be %s", kind.APIVersion, resourceapi.SchemeGroupVersion)
	}
	switch kind.Kind {
	case "DeviceClass":
		class, err := decode[resourceapi.DeviceClass](document)
		w.classes[class.Name] = class
		return "deviceclass/" + class.Name, err
	case "ResourceClaim":
		claim, err := decode[resourceapi.ResourceClaim](document)
		w.addClaim(claim)
		return "resourceclaim/" + claim.Name, err
	case "ResourceClaimTemplate":
		template, err := decode[resourceapi.ResourceClaimTemplate](document)
		w.templates[template.Name] = template
		return "resourceclaimtemplate/" + template.Name, err
	case "DeviceTaintRule":
		rule, err := decode[resourceapi.DeviceTaintRule](document)
		w.rules[rule.Name] = rule
		return "devicetaintrule/" + rule.Name, err
	case "ResourceSlice":
		slice, err := decode[resourceapi.ResourceSlice](document)
		w.slices[slice.Name] = slice
		return "resourceslice/" + slice.Name, err
	}
	return "", fmt.Errorf("kind %q is not known", kind.Kind)
}

// decode reads an object and fails if it has a field that the API does not have. The
// object is never nil.
func decode[T any](document []byte) (*T, error) {
	object := new(T)
	return object, yaml.UnmarshalStrict(document, object)
}

// addClaim adds a claim as the API server would store it.
func (w *world) addClaim(claim *resourceapi.ResourceClaim) {
	claim.Namespace, claim.UID = b.Namespace, types.UID("uid-"+claim.Name)
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if exact := request.Exactly; exact != nil {
			setDefaults(&exact.AllocationMode, &exact.Count)
		}
		for j := range request.FirstAvailable {
			setDefaults(&request.FirstAvailable[j].AllocationMode, &request.FirstAvailable[j].Count)
		}
	}
	w.claims[claim.Name] = claim
}

func setDefaults(mode *resourceapi.DeviceAllocationMode, count *int64) {
	if *mode == "" {
		*mode = resourceapi.DeviceAllocationModeExactCount
	}
	if *mode == resourceapi.DeviceAllocationModeExactCount && *count == 0 {
		*count = 1
	}
}

// commandCreate makes claims from a template, as it is done for pods.
func (w *world) commandCreate(arguments, _ []string) (string, error) {
	n := len(arguments) - 2
	if n < 1 || arguments[n] != "from" || w.templates[arguments[n+1]] == nil {
		return "", fmt.Errorf("want CLAIM... from TEMPLATE, and that it was applied before")
	}
	var lines []string
	for _, name := range arguments[:n] {
		w.addClaim(&resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *w.templates[arguments[n+1]].Spec.Spec.DeepCopy(),
		})
		lines = append(lines, "resourceclaim/"+name)
	}
	return strings.Join(lines, " "), nil
}

func (w *world) commandDelete(objects, _ []string) (string, error) {
	for _, object := range objects {
		kind, name, _ := strings.Cut(object, "/")
		switch {
		case kind == "resourceslice" && w.slices[name] != nil:
			delete(w.slices, name)
		case kind == "devicetaintrule" && w.rules[name] != nil:
			delete(w.rules, name)
		default:
			return "", fmt.Errorf("%s: want resourceslice/NAME or devicetaintrule/NAME of what exists", object)
		}
	}
	return "deleted", nil
}

// commandFeatures switches features on (+Name) and off (-Name).
func (w *world) commandFeatures(arguments, _ []string) (string, error) {
	for _, argument := range arguments {
		field := reflect.ValueOf(&w.features).Elem().FieldByName(strings.TrimLeft(argument, "+-"))
		if !field.IsValid() || argument[0] != '+' && argument[0] != '-' {
			return "", fmt.Errorf("%q is not + or - and a field of structured.Features", argument)
		}
		field.SetBool(argument[0] == '+')
	}
	return "ok", nil
}

// commandBudget limits the steps of each search.
func (w *world) commandBudget(arguments, _ []string) (string, error) {
	if len(arguments) != 1 {
		return "", fmt.Errorf("want a number of steps")
	}
	steps, err := strconv.Atoi(arguments[0])
	w.budget = steps
	return "ok", err
}

// commandUpstream tells the driver not to ask upstream whether something is impossible, or that upstream's
// next answer differs.
func (w *world) commandUpstream(arguments, _ []string) (string, error) {
	switch {
	case slices.Equal(arguments, []string{"slow"}):
		w.upstreamIsSlow = true
	case slices.Equal(arguments, []string{"differs"}):
		w.upstreamDiffers = true
	default:
		return "", fmt.Errorf("want slow or differs")
	}
	return "ok", nil
}
