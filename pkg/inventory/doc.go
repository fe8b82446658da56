// Package inventory knows which devices exist and which nodes reach them. It turns ResourceSlices
// and DeviceTaintRules (KEP-4381, KEP-5055) into immutable values per pool, which events keep up to
// date:
//
//   - Store is the mutable root. Writers are serialised; readers never lock.
//   - Snapshot shows the same for a fixed list of slices, and reads only the slices that it
//     needs. Known caches the values that snapshots derive from slices.
//   - Pool is one version of a pool: all its slices, of every generation.
//   - NodePool is a node's view of a Pool: the devices of the right generation in allocation
//     order, or the reason why there are none. All nodes with the same view share one NodePool.
//     Nodes that see the same slices, but reach other devices of them, share its Layout.
//
// The package knows nothing about claims and pods.
package inventory
