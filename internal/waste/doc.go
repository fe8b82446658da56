// Package waste analyses the fragmentation of devices: how many more claims of a shape fit now, how many devices are
// free, and which pods must move to make room for another pod. It only advises, and moves nothing.
package waste
