// Package waste is about fragmentation: how many more claims of some shape fit now, beside how many devices are free,
// and which pods would have to move to make room for another pod. It advises, and moves nothing.
package waste
