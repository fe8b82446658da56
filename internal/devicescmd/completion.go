package devicescmd

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

const (
	// completionPatience is how long somebody waits who has pressed Tab.
	completionPatience = 3 * time.Second
	// completionsAtMost is how many objects are asked for.
	completionsAtMost = 500
)

// names returns what can stand somewhere. Errors are kept from those who press Tab.
type names func(context.Context) []string

// completes has a flag completed.
func (o *options) completes(command *cobra.Command, flag string, names names) {
	// It only fails for flags that do not exist.
	_ = command.RegisterFlagCompletionFunc(flag, func(command *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndexByte(typed, ',')+1] // Of lists, the last one is completed.
		return o.complete(command.Context(), before, typed, names)
	})
}

// completeFlags completes what all commands have.
func (o *options) completeFlags(root *cobra.Command) {
	o.completes(root, "namespace", o.namespaceNames)
	o.completes(root, "output", func(context.Context) []string { return outputs[1:] })
	for flag, names := range map[string]func() []string{"context": o.contextNames, "cluster": o.clusterNames, "user": o.userNames} {
		o.completes(root, flag, func(context.Context) []string { return names() })
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
	for _, name := range names(ctx) {
		if strings.HasPrefix(before+name, typed) {
			found = append(found, before+name)
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// completeHolders completes claims, pods and devices, the first two of the current namespace.
func (o *options) completeHolders(command *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.complete(command.Context(), "", typed, func(ctx context.Context) []string {
		return append(append(o.claimNames(ctx), o.podNames(ctx)...), o.deviceNames(ctx)...)
	})
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

func namesIn[T any, P interface {
	*T
	metav1.Object
}](items []T, err error) []string {
	if err != nil {
		return nil
	}
	all := make([]string, len(items))
	for i := range items {
		all[i] = P(&items[i]).GetName()
	}
	return all
}

// dumped are the objects of --from, or else a source with which to ask a cluster; neither if that fails.
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

var someObjects = metav1.ListOptions{Limit: completionsAtMost}

func (o *options) nodeNames(ctx context.Context) []string {
	objects, source := o.dumped(ctx)
	switch {
	case objects != nil:
		return namesOf(objects.Nodes, nil)
	case source != nil:
		if list, err := source.Client().CoreV1().Nodes().List(ctx, someObjects); err == nil {
			return namesIn(list.Items, nil)
		}
	}
	return nil
}

func (o *options) namespaceNames(ctx context.Context) []string {
	objects, source := o.dumped(ctx)
	switch {
	case objects != nil:
		all := make(map[string]bool)
		for _, claim := range objects.Claims {
			all[claim.Namespace] = true
		}
		return slices.Sorted(maps.Keys(all))
	case source != nil:
		if list, err := source.Client().CoreV1().Namespaces().List(ctx, someObjects); err == nil {
			return namesIn(list.Items, nil)
		}
	}
	return nil
}

func (o *options) classNames(ctx context.Context) []string {
	objects, source := o.dumped(ctx)
	switch {
	case objects != nil:
		return namesOf(objects.Classes, nil)
	case source != nil:
		if list, err := source.Client().ResourceV1().DeviceClasses().List(ctx, someObjects); err == nil {
			return namesIn(list.Items, nil)
		}
	}
	return nil
}

func (o *options) claimNames(ctx context.Context) []string {
	objects, source := o.dumped(ctx)
	switch {
	case objects != nil:
		return namesOf(objects.Claims, o.isHere)
	case source != nil:
		if list, err := source.Client().ResourceV1().ResourceClaims(o.namespace()).List(ctx, someObjects); err == nil {
			return namesIn(list.Items, nil)
		}
	}
	return nil
}

func (o *options) podNames(ctx context.Context) []string {
	objects, source := o.dumped(ctx)
	switch {
	case objects != nil:
		return namesOf(objects.Pods, o.isHere)
	case source != nil:
		if list, err := source.Client().CoreV1().Pods(o.namespace()).List(ctx, someObjects); err == nil {
			return namesIn(list.Items, nil)
		}
	}
	return nil
}

func (o *options) isHere(object metav1.Object) bool { return object.GetNamespace() == o.namespace() }

// deviceNames are those in some slices: in full, as holders takes them.
func (o *options) deviceNames(ctx context.Context) []string {
	var names []string
	for _, slice := range o.someSlices(ctx) {
		for i := range slice.Spec.Devices {
			names = append(names, slice.Spec.Driver+"/"+slice.Spec.Pool.Name+"/"+slice.Spec.Devices[i].Name)
		}
	}
	return names
}

// attributeNames are the names of attributes and capacities, without domains.
func (o *options) attributeNames(ctx context.Context) []string {
	all := make(map[string]bool)
	for _, slice := range o.someSlices(ctx) {
		for i := range slice.Spec.Devices {
			for name := range slice.Spec.Devices[i].Attributes {
				all[unqualified(string(name))] = true
			}
			for name := range slice.Spec.Devices[i].Capacity {
				all[unqualified(string(name))] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}
