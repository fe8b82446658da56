package explain

// Blame classifies the reason that keeps claims from devices on a node. It is coarse, for metrics.
type Blame int

const (
	// BlameUnknown means that the reason was not determined.
	BlameUnknown Blame = iota
	// BlameSearch means that the search ran out of its budget; there may be a solution.
	BlameSearch
	// BlameClaims means that devices may become free when other claims release theirs.
	BlameClaims
	// BlameCombination means that each request could have its devices, but not all together. Whether that
	// ends is unknown.
	BlameCombination
	// BlamePools means that there are no devices, whatever other claims do, but that pools of the node are
	// left out because they are incomplete or invalid.
	BlamePools
	// BlameSelectors means that selectors fail on devices that might match otherwise.
	BlameSelectors
	// BlameDevices means that there are no devices, whatever other claims do.
	BlameDevices
)
