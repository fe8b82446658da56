package quartermaster

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// ArgsAPIVersion and ArgsKind identify the plugin's arguments in the pluginConfig
// of a KubeSchedulerConfiguration.
const (
	ArgsAPIVersion = "kubescheduler.config.k8s.io/v1"
	ArgsKind       = "QuartermasterArgs"
)

// ConflictPolicy says what to do when two claims turn out to hold the same.
type ConflictPolicy string

const (
	// ReportConflicts only reports them: in events and a metric.
	ReportConflicts ConflictPolicy = "Report"
	// EvictOnConflict also evicts the pods of the claim that was allocated later, as long
	// as no container of theirs has started.
	EvictOnConflict ConflictPolicy = "Evict"
)

// defaultSettleTime bridges the time between a look at the devices and the write that
// follows from it, in a scheduler that does not look again.
const defaultSettleTime = 500 * time.Millisecond

// QuartermasterArgs are the arguments of the plugin. It also runs without any.
type QuartermasterArgs struct {
	metav1.TypeMeta `json:",inline"`

	// SettleTime is how long pods wait before their claims are allocated, and again
	// before they are bound, while schedulers other than Quartermaster allocate claims as
	// well: those do not look whether somebody else was faster. Pods wait longer if those
	// are seen to be behind with their writes, at most twenty times as long. 0 means not
	// at all; the default is 500ms.
	SettleTime *metav1.Duration `json:"settleTime,omitempty"`
	// OnConflict says what to do when two claims turn out to hold the same after their
	// pods were bound: Report (the default) or Evict.
	OnConflict ConflictPolicy `json:"onConflict,omitempty"`
}

// parseArgs reads the arguments and sets defaults. Fields that do not exist are errors,
// so that a typing error does not silently leave a default in place.
func parseArgs(configured runtime.Object) (*QuartermasterArgs, error) {
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
	args.setDefaults()
	return args, args.validate()
}

func (a *QuartermasterArgs) setDefaults() {
	if a.SettleTime == nil {
		a.SettleTime = &metav1.Duration{Duration: defaultSettleTime}
	}
	if a.OnConflict == "" {
		a.OnConflict = ReportConflicts
	}
}

func (a *QuartermasterArgs) validate() error {
	if a.SettleTime.Duration < 0 {
		return fmt.Errorf("arguments of plugin %s: settleTime is %s; it must not be negative, and 0 means not to wait",
			Name, a.SettleTime.Duration)
	}
	if a.OnConflict != ReportConflicts && a.OnConflict != EvictOnConflict {
		return fmt.Errorf("arguments of plugin %s: onConflict is %q; it has to be %s or %s",
			Name, a.OnConflict, ReportConflicts, EvictOnConflict)
	}
	return nil
}

// DeepCopyObject implements runtime.Object.
func (a *QuartermasterArgs) DeepCopyObject() runtime.Object {
	c := *a
	if a.SettleTime != nil {
		settleTime := *a.SettleTime
		c.SettleTime = &settleTime
	}
	return &c
}
