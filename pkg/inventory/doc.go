// Package inventory knows which devices exist and which nodes reach them. It
// turns ResourceSlices and DeviceTaintRules (KEP-4381, KEP-5055) into immutable
// values per pool, kept up to date by events:
//
//   - Store is the mutable root. Writers are serialised; readers never lock.
//   - Snapshot shows the same for a list of slices that is given once, and looks only at
//     what is asked for. Known keeps what snapshots found out with the slices.
//   - Pool is one version of a pool: all its slices, of every generation.
//   - NodePool is what a node sees of a Pool: the devices of the right
//     generation in allocation order, or why there is nothing to allocate from.
//     All nodes that see the same share one NodePool; those that see the same
//     slices, but reach other devices of them, share its Layout.
//
// The package knows nothing about claims and pods.
package inventory
