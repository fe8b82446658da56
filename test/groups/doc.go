// Package groups tests claims of pods that are scheduled as a group (PodGroups, KEP-4671
// and KEP-5729) against a real API server. It has a cluster of its own, because the
// feature gates GenericWorkload and DRAWorkloadResourceClaims, off by default, are on for
// all of it.
//
// It takes a minute: it runs the scenarios about groups, and each test starts a scheduler with other gates.
package groups
