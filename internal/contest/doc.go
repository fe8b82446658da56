// Package contest tracks what schedulers that do not take part in the commit protocol may be about to
// allocate: to their pods that wait for devices, or to claims that they have announced. From that it
// determines how long the claims of this scheduler's pods settle before and after they are written.
//
// It does not know how devices are found, what becomes of a claim that settles, or extension points.
package contest
