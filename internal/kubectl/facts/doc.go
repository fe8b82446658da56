// Package facts extracts facts about devices from a snapshot as plain data: devices and their holders, pools,
// sums by node and by driver, claims and their devices, and problems. It prints nothing; kubectl devices shows
// the facts as tables, as JSON and as a web page.
//
// # Fragmentation
//
// Waste says how many more claims of some shape fit now, beside how many devices are free, and which pods would have to move to
// make room for another pod. It advises, and moves nothing.
package facts
