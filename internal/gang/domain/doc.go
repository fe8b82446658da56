// Package domain has the domains that the nodes of a gang are to have in common: a rack, say, that a
// label of the nodes names, or a clique of devices that are linked with each other, which an attribute
// of the devices names.
//
//   - Of reads what a PodGroup wishes, from its annotations.
//   - Split sorts nodes by domain.
//   - Blocked has the devices of a node that belong to other domains.
//   - Choose says which domains to try, or to fill, and in which order.
//
// The package is pure: the same input gives the same answer, and it knows no clients and no clocks.
package domain
