// Package driver schedules the example workloads of a real driver, sigs.k8s.io/dra-example-driver, on the devices
// that it publishes, and makes it prepare the devices for the pods that were bound.
//
// The driver's kubelet plugin runs once a node, as in its chart: with the rights of the chart's ClusterRole and a
// token that is bound to a pod on that node. A small stand-in for the kubelet is the other half of a node: it
// registers the plugin, calls NodePrepareResources for pods that were bound, and reports only then that they run. It
// takes from the answer the part that a container would see. The workloads are those of the driver's module, read
// from the module cache. The table lists the expectations for each workload, and must list all workloads.
package driver
