// Package choose chooses the pods to evict so that a whole gang fits. If not all of its pods fit, it chooses none. It
// does not plan the gang, and does not evict.
package choose
