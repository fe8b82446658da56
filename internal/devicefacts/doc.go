// Package devicefacts says what there is to see in a snapshot, as plain data: devices with those who hold them, pools,
// sums by node and by driver, claims with what they hold, and what is wrong. It prints nothing; kubectl devices shows
// it as tables, as JSON and as a web page.
package devicefacts
