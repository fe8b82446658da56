// Package described collects what planning has to know of a gang's pods: which of their claims need devices, and on
// which nodes their allocated claims can be used. Devices also have to back a pod's extended resources (KEP-5004), on
// nodes where no device plugin offers these.
package described
