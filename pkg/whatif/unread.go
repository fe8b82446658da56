package whatif

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
)

// Names of resources in Missing.
const (
	resourceNodes     = "nodes"
	resourcePods      = "pods"
	resourceSlices    = "resourceslices.resource.k8s.io"
	resourceClasses   = "deviceclasses.resource.k8s.io"
	resourceRules     = "devicetaintrules.resource.k8s.io"
	resourceClaims    = "resourceclaims.resource.k8s.io"
	resourceTemplates = "resourceclaimtemplates.resource.k8s.io"
)

// Unread is the error of a question that depends on objects that could not be read: the answer is
// neither yes nor no.
type Unread struct {
	// What names the unknown fact, as in "whether device class a exists".
	What string
	// Missing describes the objects.
	Missing Missing
}

// Error implements error.
func (e *Unread) Error() string {
	return fmt.Sprintf("%s is not known: %s", e.What, e.Missing.Said())
}

// Said says in a few words why objects could not be read.
func (m *Missing) Said() string {
	if m.Forbidden {
		return shortName(m.Resource) + " may not be read"
	}
	return shortName(m.Resource) + " could not be read (" + m.Why + ")"
}

// shortName returns a resource without its group.
func shortName(resource string) string {
	name, _, _ := strings.Cut(resource, ".")
	return name
}

// unread returns why objects of a resource in a namespace are unknown, nil if all are known. The
// namespace is "" for cluster-scoped resources.
func (s *Snapshot) unread(resource, namespace string) *Missing {
	for i := range s.missing {
		if m := &s.missing[i]; m.Resource == resource && (m.Namespace == "" || m.Namespace != namespace) {
			return m
		}
	}
	return nil
}

// absent returns the error for an object that was not found: no if all objects of its kind could be
// read, otherwise an Unread.
func (s *Snapshot) absent(resource, namespace, what string, no error) error {
	if missing := s.unread(resource, namespace); missing != nil {
		return &Unread{What: "whether " + what + " exists", Missing: *missing}
	}
	return no
}

// Absent returns nil if an object that was not found does not exist, and an Unread if that is
// unknown. The resource is named as in Missing.
func (s *Snapshot) Absent(resource, namespace, what string) error {
	return s.absent(resource, namespace, what, nil)
}

// notKnown returns why no question about nodes can be answered for the pod, nil if it can.
func (s *Snapshot) notKnown(q *question) *Unread {
	var unread *Unread
	switch {
	case errors.As(q.problem, &unread):
		return unread
	case q.problem != nil:
		return nil
	}
	if missing := s.unread(resourceNodes, ""); missing != nil {
		return &Unread{What: "which nodes there are", Missing: *missing}
	}
	if q.task == nil && q.extended == nil {
		return nil
	}
	if missing := s.unread(resourceSlices, ""); missing != nil {
		return &Unread{What: "which devices there are", Missing: *missing}
	}
	return nil
}

// unreadClasses returns the error for extended resources if classes could not be read.
func (s *Snapshot) unreadClasses(resources []extended.Resource) error {
	missing := s.unread(resourceClasses, "")
	if missing == nil || len(resources) == 0 {
		return nil
	}
	return &Unread{What: fmt.Sprintf("whether a device class stands for %s", resources[0].Name), Missing: *missing}
}

// doubted lists objects that could not be read and may change the answer: a device that looks free
// may be in use.
func (s *Snapshot) doubted() []string {
	var all []string
	for i := range s.missing {
		m := &s.missing[i]
		if !slices.Contains([]string{resourceClaims, resourceRules, resourcePods}, m.Resource) {
			continue
		}
		text := m.Said()
		if m.Namespace != "" {
			text += " outside of namespace " + m.Namespace
		}
		all = append(all, text)
	}
	return all
}
