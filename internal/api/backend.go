package api

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// backend is one version of a resource, in the types of the hub: T is the object, L the list. The clients of v1
// implement it.
type backend[T, L any] interface {
	Create(context.Context, *T, metav1.CreateOptions) (*T, error)
	Update(context.Context, *T, metav1.UpdateOptions) (*T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
	DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error
	Get(context.Context, string, metav1.GetOptions) (*T, error)
	List(context.Context, metav1.ListOptions) (*L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (*T, error)
}

// statusBackend is a version of a resource that has a status.
type statusBackend[T any] interface {
	UpdateStatus(context.Context, *T, metav1.UpdateOptions) (*T, error)
}

// applyBackend is a version to which configurations of type A can be applied: v1.
type applyBackend[T, A any] interface {
	Apply(context.Context, *A, metav1.ApplyOptions) (*T, error)
}

type applyStatusBackend[T, A any] interface {
	ApplyStatus(context.Context, *A, metav1.ApplyOptions) (*T, error)
}

// kind is one kind of object on a server, with the types of the hub.
type kind[T, L any] struct {
	served *Served
	name   string
}

// absent returns the backend of a kind that the server does not have.
func (k kind[T, L]) absent() backend[T, L] { return absent[T, L](k) }

// versions maps versions to the backends of a kind.
type versions[T, L any] map[Version]backend[T, L]

// inVersions returns a client for a kind with the given backends.
func inVersions[A, T, L any](k kind[T, L], backends versions[T, L]) *anyVersion[T, L, A] {
	return &anyVersion[T, L, A]{k.served, k.name, func(version Version) backend[T, L] {
		if b, found := backends[version]; found {
			return b
		}
		return k.absent()
	}}
}

// anyVersion is a resource in the version that the server has. It implements the client interfaces of v1; A is the
// type of apply configurations.
type anyVersion[T, L, A any] struct {
	served *Served
	name   string
	// in returns the backend for a supported version, or for None.
	in func(Version) backend[T, L]
}

// call sends a request in the version that the server has. If the server no longer has that version, it has not
// processed the request, so call can repeat it in another version. If there is none, the error is a temporary one
// (503) and not "not found": no client may conclude that an allocation is gone because the server is being replaced.
func call[R, T, L, A any](ctx context.Context, r *anyVersion[T, L, A], do func(backend[T, L]) (R, error)) (R, error) {
	version := r.served.Version(r.name)
	result, err := do(r.in(version))
	if isNotServed(err) {
		if instead, other := r.served.instead(ctx, r.name, version); other {
			version = instead
			result, err = do(r.in(version))
		}
	}
	if isNotServed(err) {
		err = newNotServedNow(r.name, version, err)
	}
	return result, err
}

func (r *anyVersion[T, L, A]) Create(ctx context.Context, object *T, o metav1.CreateOptions) (*T, error) {
	return call(ctx, r, func(b backend[T, L]) (*T, error) { return b.Create(ctx, object, o) })
}

func (r *anyVersion[T, L, A]) Update(ctx context.Context, object *T, o metav1.UpdateOptions) (*T, error) {
	return call(ctx, r, func(b backend[T, L]) (*T, error) { return b.Update(ctx, object, o) })
}

func (r *anyVersion[T, L, A]) UpdateStatus(ctx context.Context, object *T, o metav1.UpdateOptions) (*T, error) {
	return call(ctx, r, func(b backend[T, L]) (*T, error) {
		if status, ok := b.(statusBackend[T]); ok {
			return status.UpdateStatus(ctx, object, o)
		}
		return nil, r.cannot("update the status of")
	})
}

func (r *anyVersion[T, L, A]) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	_, err := call(ctx, r, func(b backend[T, L]) (*T, error) { return nil, b.Delete(ctx, name, o) })
	return err
}

func (r *anyVersion[T, L, A]) DeleteCollection(ctx context.Context, o metav1.DeleteOptions, which metav1.ListOptions) error {
	_, err := call(ctx, r, func(b backend[T, L]) (*T, error) { return nil, b.DeleteCollection(ctx, o, which) })
	return err
}

func (r *anyVersion[T, L, A]) Get(ctx context.Context, name string, o metav1.GetOptions) (*T, error) {
	return call(ctx, r, func(b backend[T, L]) (*T, error) { return b.Get(ctx, name, o) })
}

func (r *anyVersion[T, L, A]) List(ctx context.Context, o metav1.ListOptions) (*L, error) {
	return call(ctx, r, func(b backend[T, L]) (*L, error) { return b.List(ctx, o) })
}

// Watch looks for a newer version first: clients reopen watches every few minutes, and when a server has been
// replaced.
func (r *anyVersion[T, L, A]) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	r.served.lookForBetter(ctx, r.name)
	return call(ctx, r, func(b backend[T, L]) (watch.Interface, error) { return b.Watch(ctx, o) })
}

func (r *anyVersion[T, L, A]) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (*T, error) {
	return call(ctx, r, func(b backend[T, L]) (*T, error) { return b.Patch(ctx, name, kind, data, o, subresources...) })
}

func (r *anyVersion[T, L, A]) Apply(ctx context.Context, object *A, o metav1.ApplyOptions) (*T, error) {
	return call(ctx, r, func(b backend[T, L]) (*T, error) {
		if apply, ok := b.(applyBackend[T, A]); ok {
			return apply.Apply(ctx, object, o)
		}
		return nil, r.cannot("apply")
	})
}

func (r *anyVersion[T, L, A]) ApplyStatus(ctx context.Context, object *A, o metav1.ApplyOptions) (*T, error) {
	return call(ctx, r, func(b backend[T, L]) (*T, error) {
		if apply, ok := b.(applyStatusBackend[T, A]); ok {
			return apply.ApplyStatus(ctx, object, o)
		}
		return nil, r.cannot("apply the status of")
	})
}

// cannot returns the error for an operation that the current version does not support.
func (r *anyVersion[T, L, A]) cannot(what string) error {
	return unsupported(what, r.name, r.served.Version(r.name))
}

func unsupported(what, resource string, version Version) error {
	return fmt.Errorf("asked to %s %s; the API server has them in version %s: this is possible in v1 only; use update, or a client for that version", what, resource, version)
}
