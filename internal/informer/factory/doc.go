// Package factory changes the informers that kube-scheduler makes. It reduces their memory: it drops fields that no component reads
// (metadata.managedFields; package allocationlog learns by a separate watch which scheduler wrote an allocation). It keeps
// equal parts of several objects once: names, values of attributes, capacities of devices, specs of claims from one
// template, node selectors of allocations. It builds the index of slices only when it is first used.
//
// So objects share parts. Like all objects of informers, they are read-only. WithSafeHandlers works around faults of upstream's.
package factory
