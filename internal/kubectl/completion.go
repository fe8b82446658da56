package kubectl

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

const (
	// completionPatience is the timeout of a completion (Tab).
	completionPatience = 3 * time.Second
	// completionsAtMost bounds the offered names of a kind, and the objects of one request.
	completionsAtMost = 500
)

// names returns the candidates that begin with a prefix. It hides errors from users who press Tab.
type names func(ctx context.Context, prefix string) []string

// completes registers the completion of a flag's value.
func (o *options) completes(command *cobra.Command, flag string, names names) {
	// It only fails for flags that do not exist.
	_ = command.RegisterFlagCompletionFunc(flag, func(command *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndexByte(typed, ',')+1] // In a list, complete the last value.
		return o.complete(command.Context(), before, typed, names)
	})
}

// completeFlags registers the completion of the flags that all commands have.
func (o *options) completeFlags(root *cobra.Command) {
	o.completes(root, "namespace", o.namespaceNames)
	o.completes(root, "output", func(context.Context, string) []string { return append(outputs, templateOutputs()...) })
	for flag, names := range map[string]func() []string{"context": o.contextNames, "cluster": o.clusterNames, "user": o.userNames} {
		o.completes(root, flag, func(context.Context, string) []string { return names() })
	}
	_ = root.MarkPersistentFlagFilename("from")
	_ = root.MarkPersistentFlagFilename("kubeconfig")
}

func (o *options) complete(ctx context.Context, before, typed string, names names) ([]string, cobra.ShellCompDirective) {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionPatience)
	defer cancel()
	var found []string
	for _, name := range names(ctx, strings.TrimPrefix(typed, before)) {
		if strings.HasPrefix(before+name, typed) {
			found = append(found, before+name)
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// argument completes the only argument of a command.
func (o *options) argument(all ...names) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return o.complete(command.Context(), "", typed, func(ctx context.Context, prefix string) (found []string) {
			for _, names := range all {
				found = append(found, names(ctx, prefix)...)
			}
			return found
		})
	}
}

func namesOf[T any, P interface {
	*T
	metav1.Object
}](objects []*T, keep func(metav1.Object) bool) []string {
	var all []string
	for _, object := range objects {
		if keep == nil || keep(P(object)) {
			all = append(all, P(object).GetName())
		}
	}
	return all
}

var errEnough = errors.New("enough was found")

func enough(found int) error {
	if found >= completionsAtMost {
		return errEnough
	}
	return nil
}

// dumped returns the objects of --from, or else a source that reads from the cluster; neither if that fails.
func (o *options) dumped(ctx context.Context) (*whatif.Objects, *whatif.Source) {
	if o.from != "" {
		if objects, err := o.objects(ctx); err == nil {
			return &objects, nil
		}
		return nil, nil
	}
	source, err := o.source(ctx)
	if err != nil {
		return nil, nil
	}
	return nil, source
}

// namesIn returns the names of objects: those of a dump, or those with the prefix of a list in the cluster. It reads one
// page after the other, until it has enough.
func (o *options) namesIn(ctx context.Context, prefix string, dumped func(*whatif.Objects) []string,
	list func(context.Context, kubernetes.Interface, metav1.ListOptions) (runtime.Object, error)) (found []string) {
	objects, source := o.dumped(ctx)
	switch {
	case objects != nil:
		return dumped(objects)
	case source == nil:
		return nil
	}
	pages := pager.New(func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
		return list(ctx, source.Client(), page)
	})
	_ = pages.EachListItem(ctx, metav1.ListOptions{Limit: completionsAtMost}, func(item runtime.Object) error {
		if object, err := meta.Accessor(item); err == nil && strings.HasPrefix(object.GetName(), prefix) {
			found = append(found, object.GetName())
		}
		return enough(len(found))
	})
	return found
}

func (o *options) nodeNames(ctx context.Context, prefix string) []string {
	return o.namesIn(ctx, prefix, func(dump *whatif.Objects) []string { return namesOf(dump.Nodes, nil) },
		func(ctx context.Context, client kubernetes.Interface, page metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Nodes().List(ctx, page)
		})
}

func (o *options) namespaceNames(ctx context.Context, prefix string) []string {
	return o.namesIn(ctx, prefix, func(dump *whatif.Objects) []string {
		all := make(map[string]bool)
		for _, claim := range dump.Claims {
			all[claim.Namespace] = true
		}
		return slices.Sorted(maps.Keys(all))
	}, func(ctx context.Context, client kubernetes.Interface, page metav1.ListOptions) (runtime.Object, error) {
		return client.CoreV1().Namespaces().List(ctx, page)
	})
}

func (o *options) classNames(ctx context.Context, prefix string) []string {
	return o.namesIn(ctx, prefix, func(dump *whatif.Objects) []string { return namesOf(dump.Classes, nil) },
		func(ctx context.Context, client kubernetes.Interface, page metav1.ListOptions) (runtime.Object, error) {
			return client.ResourceV1().DeviceClasses().List(ctx, page)
		})
}

func (o *options) claimNames(ctx context.Context, prefix string) []string {
	return o.namesIn(ctx, prefix, func(dump *whatif.Objects) []string { return namesOf(dump.Claims, o.isHere) },
		func(ctx context.Context, client kubernetes.Interface, page metav1.ListOptions) (runtime.Object, error) {
			return client.ResourceV1().ResourceClaims(o.namespace()).List(ctx, page)
		})
}

func (o *options) podNames(ctx context.Context, prefix string) []string {
	return o.namesIn(ctx, prefix, func(dump *whatif.Objects) []string { return namesOf(dump.Pods, o.isHere) },
		func(ctx context.Context, client kubernetes.Interface, page metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Pods(o.namespace()).List(ctx, page)
		})
}

func (o *options) isHere(object metav1.Object) bool { return object.GetNamespace() == o.namespace() }

// deviceNames returns full device names (driver/pool/device), as holders takes them.
func (o *options) deviceNames(ctx context.Context, prefix string) (found []string) {
	o.eachSlice(ctx, func(slice *resourceapi.ResourceSlice) error {
		for i := range slice.Spec.Devices {
			if name := slice.Spec.Driver + "/" + slice.Spec.Pool.Name + "/" + slice.Spec.Devices[i].Name; strings.HasPrefix(name, prefix) {
				found = append(found, name)
			}
		}
		return enough(len(found))
	})
	return found[:min(len(found), completionsAtMost)]
}

// attributeNames returns the names of attributes and capacities, without domains.
func (o *options) attributeNames(ctx context.Context, prefix string) []string {
	all := make(map[string]bool)
	o.eachSlice(ctx, func(slice *resourceapi.ResourceSlice) error {
		for i := range slice.Spec.Devices {
			for name := range slice.Spec.Devices[i].Attributes {
				all[unqualified(string(name))] = true
			}
			for name := range slice.Spec.Devices[i].Capacity {
				all[unqualified(string(name))] = true
			}
		}
		return nil
	})
	maps.DeleteFunc(all, func(name string, _ bool) bool { return !strings.HasPrefix(name, prefix) })
	return slices.Sorted(maps.Keys(all))
}
