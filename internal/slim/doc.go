// Package slim makes the scheduler's informers keep less than the API server sends. What nobody reads is dropped
// (metadata.managedFields; who wrote an allocation is found out by a watch of its own, see package claimlog). What is
// the same in many objects is kept once: names, values of attributes, capacities of devices, specs of claims that were made from one
// template, node selectors of allocations. What is an index for nobody is no index: of slices, there is one once somebody looks
// something up in it.
//
// Objects share parts for that. As objects of informers always are, they are read-only.
package slim
