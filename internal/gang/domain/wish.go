package domain

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Annotations of a PodGroup, of scheduling.x-k8s.io/v1alpha1 or of scheduling.k8s.io. The value is a
// Key in the format of Key.String.
const (
	// RequiredAnnotation requires one domain for all pods of the group; without one, no pod runs.
	RequiredAnnotation = "quartermaster-dra.github.io/required-domain"
	// PreferredAnnotation requests as few domains as possible for the pods of the group.
	PreferredAnnotation = "quartermaster-dra.github.io/preferred-domain"
)

// Prefixes of annotation values.
const (
	labelPrefix     = "label="
	attributePrefix = "attribute="
)

// A Key names the label or attribute that defines domains. At most one field is set; the zero Key defines none.
type Key struct {
	// Label is the key of a node label.
	Label string
	// Attribute is a device attribute, qualified with a domain as in matchAttribute (KEP-4381). If
	// the driver publishes it without a domain, the domain is the driver's name.
	Attribute string
}

// IsZero reports whether the Key defines no domains.
func (k Key) IsZero() bool { return k == Key{} }

// String returns the Key as an annotation value, "" if it is zero.
func (k Key) String() string {
	switch {
	case k.Label != "":
		return labelPrefix + k.Label
	case k.Attribute != "":
		return attributePrefix + k.Attribute
	}
	return ""
}

// A Wish is the domain requirement or preference of a PodGroup. The zero Wish is neither.
type Wish struct {
	Key Key
	// Required is true if the pods must wait while no single domain has room for all of them.
	Required bool
}

// Of returns the Wish in the annotations of a PodGroup. It returns an error if both annotations are
// set, or if a value is no valid Key.
func Of(annotations map[string]string) (Wish, error) {
	required, isRequired := annotations[RequiredAnnotation]
	preferred, isPreferred := annotations[PreferredAnnotation]
	switch {
	case isRequired && isPreferred:
		return Wish{}, fmt.Errorf("the PodGroup has both annotations %s (%q) and %s (%q): remove one of them",
			RequiredAnnotation, required, PreferredAnnotation, preferred)
	case isRequired:
		key, err := parse(RequiredAnnotation, required)
		return Wish{Key: key, Required: err == nil}, err
	case isPreferred:
		key, err := parse(PreferredAnnotation, preferred)
		return Wish{Key: key}, err
	}
	return Wish{}, nil
}

// parse reads the value of an annotation.
func parse(annotation, value string) (Key, error) {
	var key Key
	problem := "it has neither form"
	if label, found := strings.CutPrefix(value, labelPrefix); found {
		key, problem = Key{Label: label}, problemOfLabel(label)
	} else if attribute, found := strings.CutPrefix(value, attributePrefix); found {
		key, problem = Key{Attribute: attribute}, problemOfAttribute(attribute)
	}
	if problem != "" {
		return Key{}, fmt.Errorf("annotation %s of the PodGroup is %q: %s; write the label of nodes as %q or the attribute of devices as %q",
			annotation, value, problem, labelPrefix+"topology.example.com/rack", attributePrefix+"gpu.example.com/clique")
	}
	return key, nil
}

// problemOfLabel returns why a label key is invalid, "" if it is valid.
func problemOfLabel(label string) string {
	if problems := validation.IsQualifiedName(label); len(problems) > 0 {
		return fmt.Sprintf("%q is no key of a label (%s)", label, problems[0])
	}
	return ""
}

// problemOfAttribute returns why a FullyQualifiedName is invalid, "" if it is valid.
func problemOfAttribute(attribute string) string {
	domain, id, found := strings.Cut(attribute, "/")
	switch {
	case !found:
		return fmt.Sprintf("%q is without the domain (the driver's name if the driver publishes the attribute without one)", attribute)
	case len(domain) > resourceapi.DeviceMaxDomainLength:
		return fmt.Sprintf("the domain has %d characters and may have %d", len(domain), resourceapi.DeviceMaxDomainLength)
	case len(validation.IsDNS1123Subdomain(strings.ToLower(domain))) > 0: // The API server permits capitals here.
		return fmt.Sprintf("%q before the slash is no domain (%s)", domain, validation.IsDNS1123Subdomain(strings.ToLower(domain))[0])
	case len(id) > resourceapi.DeviceMaxIDLength:
		return fmt.Sprintf("the name after the slash has %d characters and may have %d", len(id), resourceapi.DeviceMaxIDLength)
	case len(content.IsCIdentifier(id)) > 0:
		return fmt.Sprintf("%q after the slash is no name of an attribute (letters and digits and _; no digit first)", id)
	}
	return ""
}
