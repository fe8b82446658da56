package whatif

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"github.com/quartermaster-dra/quartermaster/internal/api"
)

// Source reads objects from an API server, as far as its permissions allow.
type Source struct {
	client kubernetes.Interface
	// Namespace is the namespace to read claims, templates and pods from if reading all namespaces
	// is forbidden.
	Namespace string
	// Progress, if set, is called after each kind of object that was read.
	Progress func(resource string, count int)
}

// Connect returns a source for the server of a configuration. It supports each version of the claim
// API that the scheduler supports. Goroutines may run until the context ends.
func Connect(ctx context.Context, config *rest.Config) (*Source, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the cluster: %w", err)
	}
	return &Source{client: api.Connect(ctx, client)}, nil
}

// FromClient returns a source for a server that serves resource.k8s.io/v1.
func FromClient(client kubernetes.Interface) *Source { return &Source{client: client} }

// Client returns the client that the source reads with. Its ResourceV1() works with any version
// that the server has.
func (s *Source) Client() kubernetes.Interface { return s.client }

// Read reads all objects. Kinds that may not be read are in Objects.Missing; the error is that of
// the context.
func (s *Source) Read(ctx context.Context) (Objects, error) {
	var o Objects
	for _, kind := range Kinds {
		s.read(ctx, &o, kind)
	}
	if ctx.Err() != nil {
		return Objects{}, fmt.Errorf("reading the objects of the cluster: %w", context.Cause(ctx))
	}
	s.resolve(ctx, &o)
	return o, nil
}

// resolvePatience limits the wait for the parameter objects of v1alpha2 claims.
const resolvePatience = 10 * time.Second

// resolve replaces claims that refer to parameters (v1alpha2) by claims that contain their
// requests.
func (s *Source) resolve(ctx context.Context, o *Objects) {
	resolver := api.ResolverOf(s.client)
	if resolver == nil {
		return
	}
	patience, cancel := context.WithTimeout(ctx, resolvePatience)
	defer cancel()
	if err := resolver.WaitUntilRead(patience); err != nil {
		o.Missing = append(o.Missing, Missing{Resource: "parameters of claims", Why: err.Error()})
	}
	o.Claims = slices.Clone(o.Claims)
	for i, claim := range o.Claims {
		resolved, err := resolver.Resolve(claim)
		if err != nil {
			o.Missing = append(o.Missing, Missing{Resource: "what claim " + Key(claim) + " asks for", Why: err.Error()})
			continue
		}
		o.Claims[i] = resolved
	}
}

// read reads the objects of one kind: of all namespaces, or else of the source's namespace.
func (s *Source) read(ctx context.Context, o *Objects, kind ObjectKind) {
	found, err := s.pages(ctx, kind, metav1.NamespaceAll)
	switch {
	case err == nil:
	case apierrors.IsNotFound(err) && !kind.Namespaced:
		return // The server does not have the resource, so there are no objects.
	case apierrors.IsForbidden(err) && kind.Namespaced && s.Namespace != "":
		within, failed := s.pages(ctx, kind, s.Namespace)
		if failed != nil {
			o.Missing = append(o.Missing, missing(kind.Name(), "", err))
			return
		}
		found = within
		o.Missing = append(o.Missing, missing(kind.Name(), s.Namespace, err))
	default:
		o.Missing = append(o.Missing, missing(kind.Name(), "", err))
		return
	}
	for _, object := range found {
		o.Add(object)
	}
	if s.Progress != nil {
		s.Progress(kind.Name(), len(found))
	}
}

func missing(resource, namespace string, err error) Missing {
	why, forbidden := err.Error(), apierrors.IsForbidden(err)
	if forbidden {
		why = fmt.Sprintf("the right to list %s in all namespaces is missing", resource)
		if namespace != "" {
			why += fmt.Sprintf("; only those of namespace %s are known", namespace)
		}
	}
	return Missing{Resource: resource, Why: why, Forbidden: forbidden, Namespace: namespace}
}

// pages reads a list page by page, or at once if it expires meanwhile.
func (s *Source) pages(ctx context.Context, kind ObjectKind, namespace string) (found []runtime.Object, err error) {
	add := func(object runtime.Object) error {
		if pod, is := object.(*v1.Pod); is {
			pod.ManagedFields = nil
		}
		found = append(found, object)
		return nil
	}
	err = pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return kind.List(ctx, s.client, namespace, options)
	}).EachListItem(ctx, metav1.ListOptions{}, add)
	if apierrors.IsResourceExpired(err) {
		found = nil
		var all runtime.Object
		if all, err = kind.List(ctx, s.client, namespace, metav1.ListOptions{}); err == nil {
			err = meta.EachListItem(all, add)
		}
	}
	return found, err
}
