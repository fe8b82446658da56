// Package booking follows DeviceBookings (quartermaster-dra.github.io/v1alpha1), which book devices for a time, and works out when each
// of them holds devices. DeviceBookings are a custom resource that may not be installed, or may appear and disappear.
//
//	types.go   the objects
//	parse.go   from an object as stored to a Booking, whose expressions are parsed
//	window.go  the time for which a booking holds devices: now, next, or not any more
//	status.go  the status that shows that
//	follow.go  the objects of the cluster
//	quota.go   what the ResourceQuotas of a namespace allow
//	write.go   writes the status
//
// When a booking holds devices depends only on the object, on its pods and on the time, so it is the same after a restart and in
// another process.
package booking
