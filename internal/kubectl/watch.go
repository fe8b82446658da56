package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl/screen"
)

// happening is one event that watch prints.
type happening struct {
	Time time.Time `json:"time"`
	// What is one of Allocated, Released, Reserved or Unreserved.
	What    string   `json:"what"`
	Claim   string   `json:"claim"`
	Devices []string `json:"devices,omitempty"`
	// For is the consumer of a reservation.
	For string `json:"for,omitempty"`
}

const (
	allocated  = "Allocated"
	released   = "Released"
	reserved   = "Reserved"
	unreserved = "Unreserved"
)

func newWatch(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "watch",
		Short: "Print allocations and releases as they happen",
		Long: `Print a line each time a claim is allocated, released, reserved for a pod, or no longer reserved, until you press
Ctrl-C. Earlier changes are not printed. With -o json, each line is an object.`,
		Example: `  # What happens in the cluster?
  kubectl devices watch

  # In one namespace, as data
  kubectl devices watch -n research -o json`,
		Args: noArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.watch(command.Context()) },
	}
}

func (o *options) watch(ctx context.Context) error {
	switch {
	case o.from != "":
		return errors.New("a dump does not change; watch a cluster, without --from")
	case o.output != "" && o.output != "wide" && o.output != "json":
		return fmt.Errorf("watch has no output format %q; it prints lines, or JSON objects with -o json", o.output)
	}
	source, err := o.source(ctx)
	if err != nil {
		return err
	}
	namespace, err := o.watchable(ctx, source.Client(), source.Namespace)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(source.Client(), 0, informers.WithNamespace(namespace))
	informer := factory.Resource().V1().ResourceClaims().Informer()
	if err := informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
		fmt.Fprintf(o.ErrOut, "warning: watch claims: %v; trying again\n", err)
	}); err != nil {
		return fmt.Errorf("watch claims: %w", err)
	}
	w := &watching{o: o}
	if _, err := informer.AddEventHandler(w.handler()); err != nil {
		return fmt.Errorf("watch claims: %w", err)
	}
	factory.Start(ctx.Done())
	if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		fmt.Fprintf(o.ErrOut, "Watching %s%s; Ctrl-C ends it.\n", plural(len(informer.GetStore().List()), "claim"), inNamespace(namespace))
		<-ctx.Done()
	}
	factory.Shutdown()
	return nil
}

// watchable returns the namespace in which claims may be read: the one of --namespace, all, or else the one of the
// kubeconfig.
func (o *options) watchable(ctx context.Context, client kubernetes.Interface, own string) (string, error) {
	one := func(namespace string) error {
		_, err := client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	}
	namespace := o.onlyNamespace()
	err := one(namespace)
	if apierrors.IsForbidden(err) && namespace == "" && own != "" {
		if err = one(own); err == nil {
			fmt.Fprintf(o.ErrOut, "warning: the right to list claims in all namespaces is missing; only those of namespace %s are watched\n", own)
			return own, nil
		}
	}
	if err != nil {
		return "", fmt.Errorf("list claims: %w", err)
	}
	return namespace, nil
}

// watching prints changes of claims.
type watching struct {
	o     *options
	mutex sync.Mutex
}

func (w *watching) handler() cache.ResourceEventHandlerDetailedFuncs {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, initial bool) {
			if claim, is := object.(*resourceapi.ResourceClaim); is && !initial {
				w.changed(&resourceapi.ResourceClaim{}, claim)
			}
		},
		UpdateFunc: func(before, after any) {
			w.changed(before.(*resourceapi.ResourceClaim), after.(*resourceapi.ResourceClaim))
		},
		DeleteFunc: func(object any) {
			if tombstone, is := object.(cache.DeletedFinalStateUnknown); is {
				object = tombstone.Obj
			}
			if claim, is := object.(*resourceapi.ResourceClaim); is {
				w.changed(claim, &resourceapi.ResourceClaim{ObjectMeta: claim.ObjectMeta})
			}
		},
	}
}

// changed prints the differences between two states of a claim, beginning with what ended.
func (w *watching) changed(before, after *resourceapi.ResourceClaim) {
	if before.UID != after.UID && before.UID != "" { // Deleted and created again.
		w.changed(before, &resourceapi.ResourceClaim{ObjectMeta: before.ObjectMeta})
		before = &resourceapi.ResourceClaim{}
	}
	claim := after.Namespace + "/" + after.Name
	had, has := devicesOf(before), devicesOf(after)
	for _, consumer := range without(before.Status.ReservedFor, after.Status.ReservedFor) {
		w.tell(happening{What: unreserved, Claim: claim, For: reference(&consumer)})
	}
	again := before.Status.Allocation != nil && after.Status.Allocation != nil && !slices.Equal(had, has)
	if before.Status.Allocation != nil && (after.Status.Allocation == nil || again) {
		w.tell(happening{What: released, Claim: claim, Devices: had})
	}
	if after.Status.Allocation != nil && (before.Status.Allocation == nil || again) {
		w.tell(happening{What: allocated, Claim: claim, Devices: has})
	}
	for _, consumer := range without(after.Status.ReservedFor, before.Status.ReservedFor) {
		w.tell(happening{What: reserved, Claim: claim, For: reference(&consumer)})
	}
}

func devicesOf(claim *resourceapi.ResourceClaim) []string {
	if claim.Status.Allocation == nil {
		return nil
	}
	names := make([]string, 0, len(claim.Status.Allocation.Devices.Results))
	for _, result := range claim.Status.Allocation.Devices.Results {
		names = append(names, result.Driver+"/"+result.Pool+"/"+result.Device)
	}
	return names
}

func without(these, those []resourceapi.ResourceClaimConsumerReference) []resourceapi.ResourceClaimConsumerReference {
	return slices.DeleteFunc(slices.Clone(these), func(c resourceapi.ResourceClaimConsumerReference) bool { return slices.Contains(those, c) })
}

func reference(c *resourceapi.ResourceClaimConsumerReference) string {
	if c.APIGroup == "" && c.Resource == "pods" {
		return "pod " + c.Name
	}
	return joinedBy(".", c.Resource, c.APIGroup) + " " + c.Name
}

func (w *watching) tell(h happening) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	h.Time = w.o.now()
	if w.o.output == "json" {
		if line, err := json.Marshal(h); err == nil {
			w.o.say("%s", line)
		}
		return
	}
	text := strings.Join(h.Devices, ", ")
	if h.For != "" {
		text = "for " + h.For
	}
	if text == "" {
		text = "no devices"
	}
	what := w.o.screen.Paint(happeningStyles[h.What], fmt.Sprintf("%-10s", h.What))
	w.o.say("%s  %s  %s  %s", h.Time.Format(time.TimeOnly), what, h.Claim, text)
}

var happeningStyles = map[string]screen.Style{allocated: screen.Used, released: screen.Good, reserved: screen.Plain, unreserved: screen.Faint}
