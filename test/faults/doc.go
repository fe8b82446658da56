// Package faults tests the scheduler while things go wrong between it and the API
// server, and while objects disappear that it is busy with.
//
// Each test runs bin/scheduler through a proxy of its own (test/faults/proxy) against
// a real API server, while a burst of pods has to be scheduled: pods with claims from
// a template, pods that share claims, more of them than there are devices, until some
// more are published and others get free. One in ten writes meets a fault, or
// objects are deleted at random in mid-flight.
//
// The scheduler talks protobuf to a server with all of the current API, as it is shipped. With
// faults of all kinds it also talks JSON, and is shown a server whose newest claims are v1beta1.
//
// Whatever happened, in the end all pods are scheduled that can be, every device that no
// claim holds can be had (no entry in flight is left over), no claim is allocated for nobody, the
// checker of test/checker finds nothing wrong, and no pod that was bound lost a claim on
// the way. Each test logs how many faults there were, and of what.
//
// Flags, given to go test after -args:
//
//	-seed N    seed of everything random; the default is 1
//	-scale N   N times the pods and devices; the default is 1
//	-rounds N  each burst N times in a row; the default is 1
//
// For example, more than make test does:
//
//	go test ./test/faults -v -timeout 1h -args -scale 5 -rounds 10 -seed 42
//
// Even the part in make test takes half a minute: clients of Kubernetes wait before they try a failed request again.
package faults
