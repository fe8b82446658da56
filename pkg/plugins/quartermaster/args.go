package quartermaster

import "github.com/quartermaster-dra/quartermaster/internal/config"

// Name is the name of the plugin in a scheduler's registry and configuration.
const Name = config.Name

// ArgsAPIVersion and ArgsKind identify the plugin's arguments in the pluginConfig of a KubeSchedulerConfiguration.
const (
	ArgsAPIVersion = config.ArgsAPIVersion
	ArgsKind       = config.ArgsKind
)

// QuartermasterArgs are the arguments of the plugin. All fields are optional.
type QuartermasterArgs = config.QuartermasterArgs

// ConflictPolicy is the reaction to two claims that hold the same device.
type ConflictPolicy = config.ConflictPolicy

// The policies for conflicts.
const (
	ReportConflicts = config.ReportConflicts
	EvictOnConflict = config.EvictOnConflict
)

// Strategy is the rule for choosing nodes and devices.
type Strategy = config.Strategy

// The strategies.
const (
	LeastFragmentation = config.LeastFragmentation
	Consolidate        = config.Consolidate
	Spread             = config.Spread
)
