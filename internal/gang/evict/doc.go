// Package evict chooses which pods have to go so that a gang fits: all of its pods, or nobody is evicted. It does not
// know how a gang is planned, and evicts nobody.
package evict
