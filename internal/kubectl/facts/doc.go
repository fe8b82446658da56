// Package facts extracts facts about devices from a snapshot as plain data: devices and their holders, pools,
// sums by node and by driver, claims and their devices, and problems. It prints nothing; kubectl devices shows
// the facts as tables, as JSON and as a web page.
//
// # Fragmentation
//
// Waste counts how many more claims of some shape fit now, beside how many devices are free, and names the pods that would make
// room for another pod if they moved. It moves none.
package facts
