package harness

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha2"
)

// hasAlpha2 reports whether the server has claims in v1alpha2. Requests of v1 are then
// written as parameters, as far as that version can say them.
func (c *Cluster) hasAlpha2() bool {
	served := api.Of(c.Client)
	return served != nil && served.Version("resourceclaims") == api.V1alpha2
}

// RequestName is the name under which reasons have the only request of a claim from One,
// which in v1alpha2 is the first of those that it becomes.
func (s *Space) RequestName() string {
	if s.Cluster.hasAlpha2() {
		return s.Driver + "-0"
	}
	return "gpu"
}

// CreateUntyped creates an object of v1alpha2, whose type client-go does not have. The
// plural is that of the URL.
func (c *Cluster) CreateUntyped(ctx context.Context, plural, namespace string, object runtime.Object) error {
	client, err := dynamic.NewForConfig(c.ControlPlane.AdminConfig())
	if err != nil {
		return err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("write %T: %w", object, err)
	}
	content := &unstructured.Unstructured{Object: fields}
	content.SetAPIVersion(v1alpha2.GroupVersion.String())
	name := fmt.Sprintf("%T", object)
	content.SetKind(name[strings.LastIndex(name, ".")+1:])
	resource := client.Resource(v1alpha2.GroupVersion.WithResource(plural))
	if namespace == "" {
		_, err = resource.Create(ctx, content, metav1.CreateOptions{})
	} else {
		_, err = resource.Namespace(namespace).Create(ctx, content, metav1.CreateOptions{})
	}
	return err
}

// createAlpha2 creates what is to v1alpha2 what an object of v1 is to v1. It reports false
// for objects of other APIs.
func (c *Cluster) createAlpha2(ctx context.Context, namespace string, object runtime.Object) (bool, error) {
	switch o := object.(type) {
	case *resourceapi.DeviceClass:
		class, err := alpha2Class(o)
		if err != nil {
			return true, err
		}
		return true, c.CreateUntyped(ctx, "resourceclasses", "", class)
	case *resourceapi.ResourceSlice:
		slice, err := alpha2Slice(o)
		if err != nil {
			return true, err
		}
		return true, c.CreateUntyped(ctx, "resourceslices", "", slice)
	case *resourceapi.ResourceClaim:
		spec, err := c.alpha2Spec(ctx, namespace, o.Name, &o.Spec)
		if err != nil {
			return true, err
		}
		return true, c.CreateUntyped(ctx, "resourceclaims", namespace, &v1alpha2.ResourceClaim{ObjectMeta: o.ObjectMeta, Spec: *spec})
	case *resourceapi.ResourceClaimTemplate:
		spec, err := c.alpha2Spec(ctx, namespace, "template-"+o.Name, &o.Spec.Spec)
		if err != nil {
			return true, err
		}
		template := &v1alpha2.ResourceClaimTemplate{ObjectMeta: o.ObjectMeta}
		template.Spec.Spec = *spec
		return true, c.CreateUntyped(ctx, "resourceclaimtemplates", namespace, template)
	}
	return false, nil
}

var ofDriver = regexp.MustCompile(`^device\.driver == "([^"]+)"$`)

// alpha2Class is for classes of one driver.
func alpha2Class(class *resourceapi.DeviceClass) (*v1alpha2.ResourceClass, error) {
	if len(class.Spec.Selectors) != 1 {
		return nil, fmt.Errorf("class %s has %d selectors; in v1alpha2, tests can only use classes of one driver", class.Name, len(class.Spec.Selectors))
	}
	match := ofDriver.FindStringSubmatch(class.Spec.Selectors[0].CEL.Expression)
	if match == nil {
		return nil, fmt.Errorf("class %s selects by %s; in v1alpha2, tests can only use classes of one driver", class.Name, class.Spec.Selectors[0].CEL.Expression)
	}
	return &v1alpha2.ResourceClass{ObjectMeta: class.ObjectMeta, DriverName: match[1], StructuredParameters: ptr.To(true)}, nil
}

// alpha2Spec creates parameters with a name for the requests, and returns what refers to
// them. The driver is that of the space with the namespace. They are shareable as all
// claims of v1 are.
func (c *Cluster) alpha2Spec(ctx context.Context, namespace, name string, spec *resourceapi.ResourceClaimSpec) (*v1alpha2.ResourceClaimSpec, error) {
	result := &v1alpha2.ResourceClaimSpec{
		AllocationMode: v1alpha2.WaitForFirstConsumer,
		ParametersRef:  &v1alpha2.ParametersReference{APIGroup: resourceapi.GroupName, Kind: "ResourceClaimParameters", Name: name},
	}
	driver := v1alpha2.DriverRequests{DriverName: namespace + ".example.com"}
	for _, request := range spec.Devices.Requests {
		if request.Exactly == nil || request.Exactly.AllocationMode != resourceapi.DeviceAllocationModeExactCount ||
			result.ResourceClassName != "" && request.Exactly.DeviceClassName != result.ResourceClassName {
			return nil, fmt.Errorf("request %s of %s cannot be said in v1alpha2", request.Name, name)
		}
		result.ResourceClassName = request.Exactly.DeviceClassName
		expression := "true"
		for _, selector := range request.Exactly.Selectors {
			expression += " && (" + alpha2Expression(selector.CEL.Expression) + ")"
		}
		for range request.Exactly.Count {
			driver.Requests = append(driver.Requests, v1alpha2.ResourceRequest{NamedResources: &v1alpha2.NamedResourcesRequest{Selector: expression}})
		}
	}
	return result, c.CreateUntyped(ctx, "resourceclaimparameters", namespace, &v1alpha2.ResourceClaimParameters{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Shareable: true, DriverRequests: []v1alpha2.DriverRequests{driver},
	})
}

var attribute = regexp.MustCompile(`device\.attributes\["[^"]+"\]\.(\w+)`)

// alpha2Expression translates the expressions of the tests, in which all attributes are
// numbers.
func alpha2Expression(expression string) string {
	return attribute.ReplaceAllString(expression, `attributes.int["$1"]`)
}

// alpha2Slice is for slices of one node, with numbers and texts as attributes.
func alpha2Slice(slice *resourceapi.ResourceSlice) (*v1alpha2.ResourceSlice, error) {
	if slice.Spec.NodeName == nil {
		return nil, fmt.Errorf("slice %s is not for one node; v1alpha2 has no others", slice.Name)
	}
	result := &v1alpha2.ResourceSlice{ObjectMeta: slice.ObjectMeta, NodeName: *slice.Spec.NodeName, DriverName: slice.Spec.Driver,
		NamedResources: &v1alpha2.NamedResourcesResources{}}
	for _, device := range slice.Spec.Devices {
		instance := v1alpha2.NamedResourcesInstance{Name: device.Name}
		for _, name := range slices.Sorted(maps.Keys(device.Attributes)) {
			value := device.Attributes[name]
			instance.Attributes = append(instance.Attributes, v1alpha2.NamedResourcesAttribute{
				Name: string(name), IntValue: value.IntValue, StringValue: value.StringValue,
			})
		}
		result.NamedResources.Instances = append(result.NamedResources.Instances, instance)
	}
	return result, nil
}
