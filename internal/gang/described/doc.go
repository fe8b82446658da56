// Package described describes the pods of a gang to those who plan for it: which of their claims need devices, and on which
// nodes those that have an allocation can be used. Devices also have to back what a pod asks for by extended resources
// (KEP-5004), on nodes where no device plugin offers that.
package described
