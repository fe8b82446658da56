// Package driver schedules the example workloads of a real driver, sigs.k8s.io/dra-example-driver, on the devices
// that it publishes, and has it prepare these for the pods that were bound.
//
// The driver's kubelet plugin runs once a node, as its chart has it: with the rights of the chart's ClusterRole and a
// token that is bound to a pod on that node. The other half of a node is a small stand-in for the kubelet: it
// registers the plugin, calls NodePrepareResources for pods that were bound, and only then says that they run. It
// reads of the answer what a container would see. The workloads are those of the driver's module, read from the module
// cache; the table says what is expected of each, and none may be missing in it.
package driver
