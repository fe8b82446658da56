// Package contest is about schedulers that do not take part in the commit protocol: what they may be
// about to allocate, to pods of theirs that wait for devices or to claims that they have announced,
// and for how long a pod of ours therefore lets its claims settle before and after these are written.
//
// It does not know how devices are found, what becomes of a claim that settles, or extension points.
package contest
