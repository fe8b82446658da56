package report

// Blame says what kind of thing keeps claims from devices on a node. It is coarse, for those who count.
type Blame int

const (
	// BlameUnknown: nobody has looked.
	BlameUnknown Blame = iota
	// BlameSearch: the search ran out of its budget, there may be a solution.
	BlameSearch
	// BlameClaims: there may be devices once other claims release what they have.
	BlameClaims
	// BlameCombination: each request could have its devices, but not all together. Whether that ends is not known.
	BlameCombination
	// BlamePools: there are no devices, whatever other claims do; but pools of the node are left out, because they are
	// incomplete or invalid.
	BlamePools
	// BlameSelectors: selectors fail on devices that might do otherwise.
	BlameSelectors
	// BlameDevices: there are no devices, whatever other claims do.
	BlameDevices
)
