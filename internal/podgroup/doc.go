// Package podgroup is about pods that are scheduled together (KEP-4671) and claims that are
// reserved for their PodGroup (KEP-5729): what an attempt to schedule a group has planned so far,
// whose attempts use a claim of the group in this process, and which devices would do for several
// of its pods at once.
//
// It does not know the scheduler's extension points, nor what a pod needs besides its claims, and
// writes nothing.
package podgroup
