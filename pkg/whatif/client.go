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
	"k8s.io/client-go/dynamic"
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
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the cluster: %w", err)
	}
	return &Source{client: api.Connect(ctx, client, untyped)}, nil
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
	core, api := s.client.CoreV1(), s.client.ResourceV1()
	read(ctx, s, &o, resourceNodes, &o.Nodes, func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return core.Nodes().List(ctx, options)
	})
	read(ctx, s, &o, resourceSlices, &o.Slices, func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return api.ResourceSlices().List(ctx, options)
	})
	read(ctx, s, &o, resourceClasses, &o.Classes, func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return api.DeviceClasses().List(ctx, options)
	})
	read(ctx, s, &o, resourceRules, &o.TaintRules, func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return api.DeviceTaintRules().List(ctx, options)
	})
	readNamespaced(ctx, s, &o, resourceClaims, &o.Claims, func(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
		return api.ResourceClaims(namespace).List(ctx, options)
	})
	readNamespaced(ctx, s, &o, resourceTemplates, &o.Templates, func(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
		return api.ResourceClaimTemplates(namespace).List(ctx, options)
	})
	readNamespaced(ctx, s, &o, resourcePods, &o.Pods, func(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
		return core.Pods(namespace).List(ctx, options)
	})
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

type list func(context.Context, metav1.ListOptions) (runtime.Object, error)

// read reads the objects of one kind into a list.
func read[T any](ctx context.Context, s *Source, o *Objects, resource string, into *[]*T, list list) {
	if err := readPages(ctx, into, list); err != nil {
		if apierrors.IsNotFound(err) {
			return // The server does not have the resource, so there are no objects.
		}
		o.Missing = append(o.Missing, missing(resource, "", err))
		return
	}
	if s.Progress != nil {
		s.Progress(resource, len(*into))
	}
}

// readNamespaced is read for namespaced objects: of all namespaces, or else of the source's
// namespace.
func readNamespaced[T any](ctx context.Context, s *Source, o *Objects, resource string, into *[]*T, list func(context.Context, string, metav1.ListOptions) (runtime.Object, error)) {
	in := func(namespace string) error {
		return readPages(ctx, into, func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return list(ctx, namespace, options)
		})
	}
	if err := in(metav1.NamespaceAll); err != nil {
		if !apierrors.IsForbidden(err) || s.Namespace == "" || in(s.Namespace) != nil {
			o.Missing = append(o.Missing, missing(resource, "", err))
			return
		}
		o.Missing = append(o.Missing, missing(resource, s.Namespace, err))
	}
	if s.Progress != nil {
		s.Progress(resource, len(*into))
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

// readPages reads a list page by page, or at once if it expires meanwhile. If it fails, the list is
// empty.
func readPages[T any](ctx context.Context, into *[]*T, list list) error {
	*into = nil
	err := pager.New(pager.ListPageFunc(list)).EachListItem(ctx, metav1.ListOptions{}, appendTo(into))
	if apierrors.IsResourceExpired(err) {
		*into = nil
		var all runtime.Object
		if all, err = list(ctx, metav1.ListOptions{}); err == nil {
			err = meta.EachListItem(all, appendTo(into))
		}
	}
	if err != nil {
		*into = nil
	}
	return err
}

// appendTo returns a function that appends objects to a list.
func appendTo[T any](into *[]*T) func(runtime.Object) error {
	return func(object runtime.Object) error {
		one, is := object.(any).(*T)
		if !is {
			return fmt.Errorf("the server returned %T in a list of %T", object, *into)
		}
		if pod, is := object.(*v1.Pod); is {
			pod.ManagedFields = nil
		}
		*into = append(*into, one)
		return nil
	}
}
