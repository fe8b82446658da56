package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	tracingapi "k8s.io/component-base/tracing/api/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/memo"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// Name is the name of the plugin in a scheduler's registry and configuration.
const Name = "Quartermaster"

// ArgsAPIVersion and ArgsKind identify the plugin's arguments in the pluginConfig
// of a KubeSchedulerConfiguration.
const (
	ArgsAPIVersion = "kubescheduler.config.k8s.io/v1"
	ArgsKind       = "QuartermasterArgs"
)

// ConflictPolicy is the reaction to two claims that hold the same device.
type ConflictPolicy string

const (
	// ReportConflicts only reports the conflict: in events and a metric.
	ReportConflicts ConflictPolicy = "Report"
	// EvictOnConflict also evicts the pods of the claim that was allocated later, unless one of their containers has
	// started.
	EvictOnConflict ConflictPolicy = "Evict"
)

// Strategy is the rule for choosing among possible nodes and devices.
type Strategy string

const (
	// LeastFragmentation prefers the nodes and devices that likely requests need the least.
	LeastFragmentation Strategy = "leastFragmentation"
	// Consolidate prefers nodes that run pods to empty ones, then cheap nodes. Among equal ones it is LeastFragmentation.
	Consolidate Strategy = "consolidate"
	// Pack is the earlier name of Consolidate.
	Pack Strategy = "pack"
	// Spread prefers the nodes and devices that are used the least.
	Spread Strategy = "spread"
)

// strategies maps the configured strategies to those of the allocator.
var strategies = map[Strategy]allocator.Strategy{
	LeastFragmentation: allocator.LeastFragmentation, Consolidate: allocator.LeastFragmentation, Spread: allocator.Spread,
}

// maxCloseness is the limit of attributes in closeness.
const maxCloseness = 4

const (
	// minStepBudget is enough for ordinary claims: up to 32 devices, with one step each.
	minStepBudget = 1000
	// hardNodes is the number of nodes on which one attempt can use up a node's step budget.
	hardNodes = 20
)

// defaultSettleTime covers the time between another scheduler's look at the devices and its write, if that scheduler
// does not participate in the commit protocol.
const defaultSettleTime = 500 * time.Millisecond

// defaultTakeoverPause is the API server's default for --request-timeout.
const defaultTakeoverPause = time.Minute

// QuartermasterArgs are the arguments of the plugin. All of them are optional.
type QuartermasterArgs struct {
	metav1.TypeMeta `json:",inline"`
	GangArgs        `json:",inline"`
	HoldArgs        `json:",inline"`

	// SettleTime is the time that pods wait before they are bound if a scheduler other than Quartermaster may be
	// about to allocate the same devices: one that has pods waiting for devices of those pools, or has announced
	// allocations, and does not participate in the commit protocol. While it is busy, pods also wait before their
	// claims are allocated. Both waits get longer, up to twenty times each, if its writes are seen to lag. 0 means no
	// wait; the default is 500ms.
	SettleTime *metav1.Duration `json:"settleTime,omitempty"`
	// OnConflict is the reaction to two claims that turn out to hold the same device after their pods were bound:
	// Report (the default) or Evict.
	OnConflict ConflictPolicy `json:"onConflict,omitempty"`
	// TakeoverPause is the time after the scheduler begins to lead (without leader election: after its start) in
	// which it does not touch reservations for pods that are not bound, because their bindings may be under way. It
	// should cover the API server's --request-timeout. The default is 1m, like the server's; 0 means no pause.
	TakeoverPause *metav1.Duration `json:"takeoverPause,omitempty"`
	// PreemptionDelay is the time for which a pod with devices, or its group, has to be known not to fit before other pods are evicted
	// for it, so that an autoscaler can add a node first. 0, the default, means no delay.
	PreemptionDelay *metav1.Duration `json:"preemptionDelay,omitempty"`
	// FilterTimeout limits the search for devices on one node. A pod whose search takes longer is tried again after a
	// pause, unless it fits on another node. 0 means no limit; the default is 10s. It cannot be set if the feature
	// gate DRASchedulerFilterTimeout is off.
	FilterTimeout *metav1.Duration `json:"filterTimeout,omitempty"`
	// StepBudget limits the steps of a search for devices on one node. A step is a device that is tried. After that
	// the result is unknown: the pod's message says that the search gave up. At least 1000; the default is 100000,
	// which take some tens of milliseconds.
	StepBudget *int64 `json:"stepBudget,omitempty"`
	// AttemptStepBudget limits the steps of the searches on all nodes together in one attempt to schedule a pod. Half
	// of it is shared out evenly. The rest is for nodes that need more; the first nodes leave some of it to later
	// ones. At least stepBudget; the default is twenty times stepBudget.
	AttemptStepBudget *int64 `json:"attemptStepBudget,omitempty"`
	// BindingTimeout limits the time, from the allocation of a claim, for which pods wait until its devices are
	// ready, if these have binding conditions. After that the claim is released and the pod is tried again. It is at
	// least 1s; the default is 10m. It cannot be set unless both feature gates DRADeviceBindingConditions and
	// DRAResourceClaimDeviceStatus are on.
	BindingTimeout *metav1.Duration `json:"bindingTimeout,omitempty"`
	// CacheSize limits, in bytes, the caches of results about users' requests: above all, which devices match which
	// expressions. The least recently used entries are dropped first, and computed again when needed. If profiles
	// differ, the largest value applies to all together. It is at least 1Mi; the default is 64Mi.
	CacheSize *resource.Quantity `json:"cacheSize,omitempty"`
	// Strategy is the rule for choosing among the nodes and devices that are possible for a pod: leastFragmentation
	// (the default) keeps devices free that likely large requests need; consolidate (also: pack) needs as few nodes as
	// possible; spread leaves as much as possible free around each pod.
	Strategy Strategy `json:"strategy,omitempty"`
	// NodeCostLabel is a label of nodes with the cost of keeping a node, a number above 0 in any unit, for strategy
	// consolidate. A node without such a number costs 1. By default all nodes cost the same.
	NodeCostLabel string `json:"nodeCostLabel,omitempty"`
	// ClassStrategies are different strategies for some device classes. For a pod with several classes, the first
	// request with one of these classes decides.
	ClassStrategies map[string]Strategy `json:"classStrategies,omitempty"`
	// Closeness names up to four attributes whose equal values mean that devices are close to each other, most
	// important first. Devices of a pod share as many values as possible, and small requests do not break up groups
	// that share them. No pod waits for that. The default is resource.kubernetes.io/pcieRoot and
	// resource.kubernetes.io/numaNode; an empty list means none.
	Closeness *[]resourceapi.FullyQualifiedName `json:"closeness,omitempty"`
	// PlacePodsWithoutDevices makes the plugin also choose nodes for pods that request no devices: it prefers those where
	// likely requests for devices lose the least by the pod's CPU and memory. Pods with preferences of their own are left
	// alone. The default is false, with strategy consolidate true.
	PlacePodsWithoutDevices *bool `json:"placePodsWithoutDevices,omitempty"`
	// ClaimEventsPerSecond limits the long-term rate of events about claims that were allocated or released; bursts
	// may have ten times as many. If profiles differ, the largest value applies to all together. It is at most 100; 0
	// means that the profile creates none. The default is 10.
	ClaimEventsPerSecond *int32 `json:"claimEventsPerSecond,omitempty"`
	// Tracing configures the export of spans of attempts to schedule pods with devices: endpoint and
	// samplingRatePerMillion, as for other components of Kubernetes. Without a rate, which is the default, there are
	// no spans.
	Tracing *tracingapi.TracingConfiguration `json:"tracing,omitempty"`
}

// Parse decodes the arguments and sets defaults. It refuses unknown fields, so that a typing error does not silently
// leave a default in place, and arguments without effect because their feature gate is off.
func Parse(configured runtime.Object, features kube.Features) (*QuartermasterArgs, error) {
	args := &QuartermasterArgs{}
	switch configured := configured.(type) {
	case nil:
	case *QuartermasterArgs:
		args = configured.DeepCopyObject().(*QuartermasterArgs)
	case *runtime.Unknown:
		// Both JSON and YAML are YAML.
		if err := yaml.UnmarshalStrict(configured.Raw, args); err != nil {
			return nil, fmt.Errorf("arguments of plugin %s are not understood: %w", Name, err)
		}
	default:
		return nil, fmt.Errorf("arguments of plugin %s are of type %T, expected are kind %s of %s",
			Name, configured, ArgsKind, ArgsAPIVersion)
	}
	if args.Kind != "" && args.Kind != ArgsKind || args.APIVersion != "" && args.APIVersion != ArgsAPIVersion {
		return nil, fmt.Errorf("arguments of plugin %s are kind %q of %q, expected are kind %s of %s",
			Name, args.Kind, args.APIVersion, ArgsKind, ArgsAPIVersion)
	}
	if err := args.validateTimeouts(features); err != nil {
		return nil, err
	}
	args.setDefaults(features)
	return args, args.validate()
}

// setDefaults leaves a timeout nil if its feature gate is off.
func (a *QuartermasterArgs) setDefaults(features kube.Features) {
	setDefault(&a.SettleTime, metav1.Duration{Duration: defaultSettleTime})
	setDefault(&a.TakeoverPause, metav1.Duration{Duration: defaultTakeoverPause})
	if a.OnConflict == "" {
		a.OnConflict = ReportConflicts
	}
	setDefault(&a.PreemptionDelay, metav1.Duration{})
	setDefault(&a.StepBudget, allocator.DefaultStepBudget)
	attempt := int64(math.MaxInt64)
	if *a.StepBudget < math.MaxInt64/hardNodes {
		attempt = hardNodes * *a.StepBudget
	}
	setDefault(&a.AttemptStepBudget, attempt)
	setDefault(&a.CacheSize, *resource.NewQuantity(memo.DefaultBound, resource.BinarySI))
	a.GangArgs.setDefaults()
	a.HoldArgs.setDefaults()
	a.setStrategies()
	setDefault(&a.Closeness, slices.Clone(allocator.DefaultCloseness))
	setDefault(&a.PlacePodsWithoutDevices, a.Strategy == Consolidate)
	setDefault(&a.ClaimEventsPerSecond, write.DefaultPerSecond)
	if features.EnableDRASchedulerFilterTimeout {
		setDefault(&a.FilterTimeout, metav1.Duration{Duration: configv1.DynamicResourcesFilterTimeoutDefault})
	}
	if bindingConditions(features) {
		setDefault(&a.BindingTimeout, metav1.Duration{Duration: configv1.DynamicResourcesBindingTimeoutDefault})
	}
}

// setDefault sets a field that is not set.
func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// setStrategies sets the default, and replaces the earlier name of a strategy.
func (a *QuartermasterArgs) setStrategies() {
	switch a.Strategy {
	case "":
		a.Strategy = LeastFragmentation
	case Pack:
		a.Strategy = Consolidate
	}
	for class, strategy := range a.ClassStrategies {
		if strategy == Pack {
			a.ClassStrategies[class] = Consolidate
		}
	}
}

func (a *QuartermasterArgs) validate() error {
	if a.SettleTime.Duration < 0 {
		return fmt.Errorf("arguments of plugin %s: settleTime is %s; it must not be negative, and 0 means not to wait",
			Name, a.SettleTime.Duration)
	}
	if a.TakeoverPause.Duration < 0 {
		return fmt.Errorf("arguments of plugin %s: takeoverPause is %s; it must not be negative, and 0 means no pause",
			Name, a.TakeoverPause.Duration)
	}
	if a.OnConflict != ReportConflicts && a.OnConflict != EvictOnConflict {
		return fmt.Errorf("arguments of plugin %s: onConflict is %q; it has to be %s or %s",
			Name, a.OnConflict, ReportConflicts, EvictOnConflict)
	}
	if a.PreemptionDelay.Duration < 0 {
		return fmt.Errorf("arguments of plugin %s: preemptionDelay is %s; it must not be negative, and 0 means no delay",
			Name, a.PreemptionDelay.Duration)
	}
	if *a.StepBudget < minStepBudget {
		return fmt.Errorf("arguments of plugin %s: stepBudget is %d; it has to be at least %d, so that ordinary claims get devices",
			Name, *a.StepBudget, minStepBudget)
	}
	if *a.AttemptStepBudget < *a.StepBudget {
		return fmt.Errorf("arguments of plugin %s: attemptStepBudget is %d; it has to be at least stepBudget, which is %d: it is for all nodes together",
			Name, *a.AttemptStepBudget, *a.StepBudget)
	}
	if size := quantity.Value(*a.CacheSize); size < minCacheSize || size > maxCacheSize {
		return fmt.Errorf("arguments of plugin %s: cacheSize is %s; it has to be at least %s and at most %s", Name, a.CacheSize,
			resource.NewQuantity(minCacheSize, resource.BinarySI), resource.NewQuantity(maxCacheSize, resource.BinarySI))
	}
	if n := *a.ClaimEventsPerSecond; n < 0 || n > write.MaxPerSecond {
		return fmt.Errorf("arguments of plugin %s: claimEventsPerSecond is %d; it has to be at most %d, and 0 means no events",
			Name, n, write.MaxPerSecond)
	}
	if errs := tracingapi.ValidateTracingConfiguration(a.Tracing, nil, field.NewPath("tracing")); len(errs) > 0 {
		return fmt.Errorf("arguments of plugin %s: %w", Name, errs.ToAggregate())
	}
	if err := errors.Join(a.GangArgs.validate(), a.HoldArgs.validate()); err != nil {
		return err
	}
	return a.validatePlacement()
}

// validatePlacement checks strategies and closeness.
func (a *QuartermasterArgs) validatePlacement() error {
	const known = "it has to be leastFragmentation, consolidate or spread"
	if _, has := strategies[a.Strategy]; !has {
		return fmt.Errorf("arguments of plugin %s: strategy is %q; %s", Name, a.Strategy, known)
	}
	for _, class := range slices.Sorted(maps.Keys(a.ClassStrategies)) {
		if _, has := strategies[a.ClassStrategies[class]]; !has {
			return fmt.Errorf("arguments of plugin %s: the strategy of class %s is %q; %s", Name, class, a.ClassStrategies[class], known)
		}
	}
	if errs := validation.IsQualifiedName(a.NodeCostLabel); a.NodeCostLabel != "" && len(errs) > 0 {
		return fmt.Errorf("arguments of plugin %s: nodeCostLabel is %q; it has to be the key of a label: %s",
			Name, a.NodeCostLabel, strings.Join(errs, "; "))
	}
	if n := len(*a.Closeness); n > maxCloseness {
		return fmt.Errorf("arguments of plugin %s: closeness has %d attributes; it can have %d", Name, n, maxCloseness)
	}
	for _, attribute := range *a.Closeness {
		if domain, name, qualified := strings.Cut(string(attribute), "/"); !qualified || domain == "" || name == "" {
			return fmt.Errorf("arguments of plugin %s: closeness has attribute %q; it has to be named in full, as in %s",
				Name, attribute, allocator.DefaultCloseness[0])
		}
	}
	return nil
}

const (
	minCacheSize = 1 << 20
	// maxCacheSize is more than any machine has.
	maxCacheSize = 1 << 50
)

// minBindingTimeout is also the API's minimum: timestamps of allocations are in whole seconds.
const minBindingTimeout = time.Second

// validateTimeouts checks the configured values before defaults are set.
func (a *QuartermasterArgs) validateTimeouts(features kube.Features) error {
	switch filter, binding := a.FilterTimeout, a.BindingTimeout; {
	case filter != nil && !features.EnableDRASchedulerFilterTimeout:
		return fmt.Errorf("arguments of plugin %s: filterTimeout is set, but feature gate DRASchedulerFilterTimeout is off; "+
			"turn the gate on or leave out the argument", Name)
	case filter != nil && filter.Duration < 0:
		return fmt.Errorf("arguments of plugin %s: filterTimeout is %s; it must not be negative, and 0 means no limit", Name, filter.Duration)
	case binding != nil && !bindingConditions(features):
		return fmt.Errorf("arguments of plugin %s: bindingTimeout is set, but feature gate DRADeviceBindingConditions or "+
			"DRAResourceClaimDeviceStatus is off; turn both on or leave out the argument", Name)
	case binding != nil && binding.Duration < minBindingTimeout:
		return fmt.Errorf("arguments of plugin %s: bindingTimeout is %s; it has to be at least %s", Name, binding.Duration, minBindingTimeout)
	}
	return nil
}

// DeepCopyObject implements runtime.Object.
func (a *QuartermasterArgs) DeepCopyObject() runtime.Object {
	c := *a
	c.GangArgs, c.HoldArgs = a.GangArgs.deepCopy(), a.HoldArgs.deepCopy()
	c.SettleTime, c.TakeoverPause, c.PreemptionDelay = clone(a.SettleTime), clone(a.TakeoverPause), clone(a.PreemptionDelay)
	c.FilterTimeout, c.BindingTimeout = clone(a.FilterTimeout), clone(a.BindingTimeout)
	c.StepBudget, c.AttemptStepBudget = clone(a.StepBudget), clone(a.AttemptStepBudget)
	c.PlacePodsWithoutDevices, c.ClaimEventsPerSecond = clone(a.PlacePodsWithoutDevices), clone(a.ClaimEventsPerSecond)
	if a.CacheSize != nil {
		c.CacheSize = ptr.To(a.CacheSize.DeepCopy())
	}
	c.Tracing = a.Tracing.DeepCopy()
	c.ClassStrategies = maps.Clone(a.ClassStrategies)
	if a.Closeness != nil {
		c.Closeness = ptr.To(slices.Clone(*a.Closeness))
	}
	return &c
}

// clone returns a pointer to a copy of a value without pointers, nil for nil.
func clone[T any](value *T) *T {
	if value == nil {
		return nil
	}
	copied := *value
	return &copied
}
