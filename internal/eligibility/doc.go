// Package eligibility finds out what a pod needs and where it can have it: which of its claims need devices, on which nodes its
// allocated claims can be used, and which extended resources devices must back (KEP-5004), on nodes where no device
// plugin offers them. What is allocated, or planned for other pods of its group, limits the nodes.
//
// It does not know where devices are free.
package eligibility
