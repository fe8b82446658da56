package api

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// converted is the backend of an older version. O and OL are that version's types.
type converted[T, L, O, OL any] struct {
	name    string
	version Version
	old     backend[O, OL]
}

// older returns a backend on the client of an older version.
func older[T, L, O, OL any](k kind[T, L], version Version, old backend[O, OL]) backend[T, L] {
	return converted[T, L, O, OL]{name: k.name, version: version, old: old}
}

func (c converted[T, L, O, OL]) Create(ctx context.Context, object *T, o metav1.CreateOptions) (*T, error) {
	return put(object, func(object *O) (*O, error) { return c.old.Create(ctx, object, o) })
}

func (c converted[T, L, O, OL]) Update(ctx context.Context, object *T, o metav1.UpdateOptions) (*T, error) {
	return put(object, func(object *O) (*O, error) { return c.old.Update(ctx, object, o) })
}

func (c converted[T, L, O, OL]) UpdateStatus(ctx context.Context, object *T, o metav1.UpdateOptions) (*T, error) {
	status, ok := c.old.(statusBackend[O])
	if !ok {
		return nil, unsupported("update the status of", c.name, c.version)
	}
	return put(object, func(object *O) (*O, error) { return status.UpdateStatus(ctx, object, o) })
}

func (c converted[T, L, O, OL]) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return c.old.Delete(ctx, name, o)
}

func (c converted[T, L, O, OL]) DeleteCollection(ctx context.Context, o metav1.DeleteOptions, which metav1.ListOptions) error {
	return c.old.DeleteCollection(ctx, o, which)
}

func (c converted[T, L, O, OL]) Get(ctx context.Context, name string, o metav1.GetOptions) (*T, error) {
	object, err := c.old.Get(ctx, name, o)
	if err != nil {
		return nil, err
	}
	return convert[T](object)
}

func (c converted[T, L, O, OL]) List(ctx context.Context, o metav1.ListOptions) (*L, error) {
	list, err := c.old.List(ctx, o)
	if err != nil {
		return nil, err
	}
	return convertList[T, L, O](list)
}

func (c converted[T, L, O, OL]) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	events, err := c.old.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return newConvertedWatch(events, func(object *O) (*T, error) { return convert[T](object) }), nil
}

// Patch supports only what a metadataPatch can express: any other patch is written for one version, and the object
// has another.
func (c converted[T, L, O, OL]) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (*T, error) {
	patch, ok := asMetadataPatch(kind, data, subresources)
	if !ok {
		return nil, unsupported("patch", c.name, c.version)
	}
	answer, err := patchMetadata(ctx, c.old, name, patch, o)
	if err != nil {
		return nil, err
	}
	return convert[T](answer)
}

// put sends an object and returns the converted answer.
func put[T, O any](object *T, send func(*O) (*O, error)) (*T, error) {
	old, err := convert[O](object)
	if err != nil {
		return nil, err
	}
	answer, err := send(old)
	if err != nil {
		return nil, err
	}
	return convert[T](answer)
}
