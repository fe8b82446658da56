// Package preemption runs schedulers against a real API server in clusters that are full, and has pods of higher
// priority come. Pods end as with a kubelet: after a grace period, their claims later.
//
// It takes half a minute: victims end after their grace period, and their claims later.
package preemption
