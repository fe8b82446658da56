// Package domain handles the domains that the nodes of a gang must or should share: for example a
// rack, given by a node label, or a clique of linked devices, given by a device attribute.
//
//   - Of reads the wish from the annotations of a PodGroup.
//   - Split sorts nodes by domain.
//   - Blocked returns the devices of a node that belong to other domains.
//   - Choose selects the domains to fill, and their order.
//
// The package has no side effects, and uses no clients and no clocks.
package domain
