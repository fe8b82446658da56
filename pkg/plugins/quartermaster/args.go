package quartermaster

import "github.com/quartermaster-dra/quartermaster/internal/arguments"

// Name is the name of the plugin in a scheduler's registry and configuration.
const Name = arguments.Name

// ArgsAPIVersion and ArgsKind identify the plugin's arguments in the pluginConfig of a KubeSchedulerConfiguration.
const (
	ArgsAPIVersion = arguments.ArgsAPIVersion
	ArgsKind       = arguments.ArgsKind
)

// QuartermasterArgs are the arguments of the plugin. All fields are optional.
type QuartermasterArgs = arguments.QuartermasterArgs

// ConflictPolicy is the reaction to two claims that hold the same device.
type ConflictPolicy = arguments.ConflictPolicy

// The policies for conflicts.
const (
	ReportConflicts = arguments.ReportConflicts
	EvictOnConflict = arguments.EvictOnConflict
)

// Strategy is the rule for choosing nodes and devices.
type Strategy = arguments.Strategy

// The strategies.
const (
	LeastFragmentation = arguments.LeastFragmentation
	Pack               = arguments.Pack
	Spread             = arguments.Spread
)
