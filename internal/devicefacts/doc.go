// Package devicefacts extracts facts about devices from a snapshot as plain data: devices and their holders, pools,
// sums by node and by driver, claims and their devices, and problems. It prints nothing; kubectl devices shows
// the facts as tables, as JSON and as a web page.
package devicefacts
